/** One call, whatever it came over: who calls, what the script says, what is recorded, what is answered. */
import { type DescMessage, type JsonObject, type MessageShape, toJson } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, createContextKey, type HandlerContext } from "@connectrpc/connect";
import { BulkStreamService } from "../../gen/platform/bulk/v1/streams_pb.ts";
import { admit, refusalOf } from "./admission.ts";
import { bulkAnswer, isBulk } from "./bulk-calls.ts";
import type { ScriptedIssuer } from "./issuer.ts";
import type { ScriptedLog } from "./log.ts";
import type { BulkRoute, Route } from "./protocol.ts";
import { recordAll } from "./records.ts";
import { answerOf, methods, services } from "./requests.ts";
import type { Act, SeenCall, ServerScript } from "./script.ts";
import { pause } from "./sockets.ts";
import { serveStream } from "./streams.ts";

export interface ServerState {
  readonly script: ServerScript;
  readonly issuer: ScriptedIssuer;
  readonly records: Map<string, string>;
  /** Where the script has receipts. */
  readonly log: ScriptedLog | undefined;
  /** Receipts that have been made. */
  receipts: number;
  readonly usedProofs: Set<string>;
  /** Calls that have been let in. */
  lettingIn: number;
  readonly stopping: AbortSignal;
}

/** A call on its way in. */
export interface Arrival {
  readonly seen: SeenCall;
  readonly act: Act;
  readonly url: string;
  readonly method: string;
  /** Ends its connection at once. */
  readonly reset: () => void;
  /** Takes no more calls on its connection, and ends it after those that are under way. */
  readonly sayGoodbye: () => void;
  /** Ends all connections at once, and takes others again after a while. */
  readonly restart: () => void;
}

export const arrivalKey = createContextKey<Arrival | undefined>(undefined);

/** Serves all calls on gRPC, gRPC-Web and Connect. */
export function callRouter(state: ServerState): (router: ConnectRouter) => void {
  return (router) => {
    for (const service of services) {
      for (const method of service.methods) {
        const handle = async (request: MessageShape<DescMessage>, context: HandlerContext) =>
          answer(state, arrivalOf(context), request, context.responseHeader);
        router.rpc(method, handle as never);
      }
    }
    for (const method of BulkStreamService.methods) {
      const handle = (requests: AsyncIterable<MessageShape<DescMessage>>, context: HandlerContext) =>
        serveStream(state, arrivalOf(context), requests, context.responseHeader);
      router.rpc(method, handle as never);
    }
  };
}

function arrivalOf({ values }: HandlerContext): Arrival {
  const arrival = values.get(arrivalKey);
  if (arrival === undefined) throw new ConnectError("no arrival", Code.Internal);
  return arrival;
}

/** The answer. Throws the refusal. */
export async function answer(
  state: ServerState,
  arrival: Arrival,
  request: MessageShape<DescMessage>,
  responseHeaders: Headers,
): Promise<MessageShape<DescMessage>> {
  const { seen, act } = arrival;
  const { route } = seen;
  seen.message = request;
  if (route === undefined || route === "stream/events" || route === "stream/registrations")
    throw new ConnectError("no such call", Code.Unimplemented);
  await admit(state, arrival, responseHeaders);
  if (act.does === "answer" || act.does === "refuse") {
    if (act.afterMs !== undefined) await pause(act.afterMs, state.stopping);
    for (const [name, value] of Object.entries(act.headers ?? {})) responseHeaders.set(name, value);
  }
  if (act.does === "refuse") throw refusalOf(act);
  const detail = seen.headers["x-svc-receipt"] ?? (isBulk(route) ? "brief" : "full");
  const { change = {}, items = {} } = act.does === "answer" ? act : {};
  const message = isBulk(route)
    ? bulkAnswer(state, route, request, detail, change, items)
    : answerOf(route, ...recordAll(state, [{ route, request, key: seen.idempotencyKey }], detail), change);
  if (act.does === "commit-and-reset") {
    arrival.reset();
    throw new ConnectError("reset", Code.Unavailable);
  }
  if (act.does === "answer" && act.newer === true) addNewer(message);
  return message;
}

/** Fields that this version of the contract does not have. */
function addNewer(message: MessageShape<DescMessage>): void {
  // Field 2000, a string.
  message.$unknown = [{ no: 2000, wireType: 2, data: Uint8Array.of(3, 0x6e, 0x65, 0x77) }];
}

/** A message as protobuf JSON, for what cases compare. */
export function jsonOf(route: Route | BulkRoute, message: MessageShape<DescMessage>): JsonObject {
  return toJson(methods[route].input, message) as JsonObject;
}
