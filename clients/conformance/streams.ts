/** A stream that does what the script says: items are recorded as they arrive, and acknowledged when it is time. */
import { type DescMessage, fromJson, type JsonObject, type MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { EventItem, RegistrationItem } from "../../gen/platform/bulk/v1/records_pb.ts";
import {
  type StreamEventsRequest,
  StreamEventsResponseSchema,
  type StreamRegistrationsRequest,
  StreamRegistrationsResponseSchema,
} from "../../gen/platform/bulk/v1/streams_pb.ts";
import { admit, refusalOf } from "./admission.ts";
import { recordingOf, resultsOf } from "./bulk-calls.ts";
import type { Arrival, ServerState } from "./calls.ts";
import type { StreamAct } from "./script.ts";
import { pause } from "./sockets.ts";

type Item = EventItem | RegistrationItem;

/** The acknowledgements. Throws why the stream ends. */
export async function* serveStream(
  state: ServerState,
  arrival: Arrival,
  requests: AsyncIterable<MessageShape<DescMessage>>,
  responseHeaders: Headers,
): AsyncGenerator<MessageShape<DescMessage>> {
  const { seen, act } = arrival;
  await admit(state, arrival, responseHeaders);
  if (act.does === "refuse") {
    if (act.afterMs !== undefined) await pause(act.afterMs, state.stopping);
    throw refusalOf(act);
  }
  const script: StreamAct = act.does === "stream" ? act : { does: "stream" };
  const { holdsBack, acknowledges = Number.POSITIVE_INFINITY, results = {}, ends, idleMs } = script;
  const desc = seen.route === "stream/events" ? StreamEventsResponseSchema : StreamRegistrationsResponseSchema;
  const detail = seen.headers["x-svc-receipt"] ?? "brief";
  const made: JsonObject[] = [];
  const arriving = readAll(requests, (sequence, item) => {
    const { key = "", request: message } = recordingOf(item);
    seen.items.push({ sequence, key, message, isAcknowledged: false });
    made.push(...resultsOf(state, [recordingOf(item)], detail, { 0: results[made.length] ?? {} }));
  });
  let lies = script.lies;
  if (holdsBack !== undefined) {
    while (seen.items.length < holdsBack.items && !arriving.isOver) await arriving.more();
    await pause(holdsBack.ms, state.stopping);
  }
  if (script.startsEmpty === true) yield fromJson(desc, {});
  for (let done = 0; ; ) {
    const due = Math.min(seen.items.length, acknowledges);
    if (due > done) {
      seen.arrivedBefore ??= seen.items.length;
      const items = seen.items.slice(done, due).map(({ sequence }, i): JsonObject => {
        return { sequence: String(sequence), result: made[done + i] ?? {} };
      });
      yield fromJson(desc, { items: lies === undefined ? items : falsified(items, lies) });
      lies = undefined;
      for (const item of seen.items.slice(done, due)) item.isAcknowledged = true;
      done = due;
    }
    if (ends !== undefined && seen.items.length >= ends.after) return end(arrival, ends.by);
    if (seen.items.length > due && due < acknowledges) continue;
    if (arriving.isOver) return;
    if (!(await arriving.more(idleMs)))
      throw refusalOf({ code: "deadline_exceeded", reason: "request_timeout" }, "no item arrived in time");
  }
}

function end(arrival: Arrival, by: NonNullable<StreamAct["ends"]>["by"]): void {
  if (typeof by === "object") throw refusalOf(by);
  if (by === "goaway") arrival.sayGoodbye();
  if (by === "ok" || by === "goaway") return;
  if (by === "restart") arrival.restart();
  else arrival.reset();
  throw new ConnectError("reset", Code.Unavailable);
}

function falsified(items: readonly JsonObject[], lie: NonNullable<StreamAct["lies"]>): JsonObject[] {
  const last = items.at(-1) as { readonly sequence: string; readonly result: JsonObject };
  switch (lie) {
    case "unknown-sequence":
      return [...items.slice(0, -1), { ...last, sequence: String(Number(last.sequence) + 1_000) }];
    case "acknowledged-before":
      return [...items, last];
    case "out-of-order":
      return items.toReversed();
    case "another-key":
      return [...items.slice(0, -1), { ...last, result: { ...last.result, idempotencyKey: "of-another-item" } }];
    case "another-items-record": {
      const { idempotencyKey = "" } = last.result;
      return [...items.slice(0, -1), { ...last, result: { ...(items[0]?.result as JsonObject), idempotencyKey } }];
    }
  }
}

interface Arriving {
  /** No item comes any more. */
  readonly isOver: boolean;
  /** Resolves with true when something has happened since the last time, with false where nothing does in time. */
  more(withinMs?: number): Promise<boolean>;
}

/** Reads on whatever becomes of the items. */
function readAll(
  requests: AsyncIterable<MessageShape<DescMessage>>,
  take: (sequence: bigint, item: Item) => void,
): Arriving {
  let isOver = false;
  let wake = () => {};
  let news = Promise.resolve();
  const renew = () => {
    news = new Promise((resolve) => {
      wake = resolve;
    });
  };
  renew();
  const read = async () => {
    for await (const request of requests as AsyncIterable<StreamEventsRequest | StreamRegistrationsRequest>) {
      if (request.item === undefined) throw new ConnectError("no item", Code.InvalidArgument);
      take(request.sequence, request.item);
      wake();
    }
  };
  read()
    .catch(() => {})
    .finally(() => {
      isOver = true;
      wake();
    });
  return {
    get isOver() {
      return isOver;
    },
    async more(withinMs) {
      const late = withinMs === undefined ? [] : [pause(withinMs).then(() => false)];
      const hasCome = await Promise.race([news.then(() => true), ...late]);
      if (hasCome) renew();
      return hasCome;
    },
  };
}
