/** What programs see of a stream that resumes; `clients/conformance` has what the service sees. */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport, type HandlerContext } from "@connectrpc/connect";
import { expect, test } from "vitest";
import {
  BulkStreamService,
  createBulkClient,
  type EventItem,
  ItemOutcome,
  type StreamEventsRequest,
  StreamEventsResponseSchema,
} from "../../../clients/typescript/src/bulk.ts";
import { createRestTransport, PlatformError, retry } from "../../../clients/typescript/src/index.ts";

const event = { workload: { application: "agent" }, resource: { kind: "record" } };
const quick = { attempts: 3, baseDelayMs: 1, maxDelayMs: 1 };

type Handler = (requests: AsyncIterable<StreamEventsRequest>, context: HandlerContext) => AsyncIterable<EventItem[]>;

/** A service whose streams are handled by one after the other of these, then by the last. */
function service(handlers: readonly Handler[], options: typeof quick | "no retries" = quick) {
  const opened: HandlerContext[] = [];
  const interceptors = options === "no retries" ? [] : [retry(options)];
  const transport = createRouterTransport(
    ({ rpc }) => {
      rpc(BulkStreamService.method.streamEvents, async function* (requests, context) {
        const handle = handlers[Math.min(opened.length, handlers.length - 1)] as Handler;
        opened.push(context);
        let sequence = -1n;
        const counted = (async function* () {
          for await (const request of requests) {
            if (sequence < 0n) sequence = request.sequence;
            yield request;
          }
        })();
        for await (const items of handle(counted, context)) {
          const acknowledged = items.map(({ idempotencyKey }) => ({
            sequence: sequence++,
            result: { outcome: ItemOutcome.ANSWERED, idempotencyKey },
          }));
          yield create(StreamEventsResponseSchema, { items: acknowledged });
        }
      });
    },
    { transport: { interceptors } },
  );
  return { transport, opened };
}

const acknowledging: Handler = async function* (requests) {
  for await (const { item } of requests) if (item !== undefined) yield [item];
};
/** Takes everything and acknowledges nothing. */
const silent: Handler = async function* (requests) {
  for await (const _request of requests) yield [];
};
const refusing =
  (code: Code): Handler =>
  () => {
    throw new ConnectError("refused", code);
  };

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

test("a stream without items is never opened", async () => {
  const { transport, opened } = service([acknowledging]);
  const stream = createBulkClient(transport).openEventStream();
  await stream.close();
  await stream.close();
  stream.abort();
  expect(opened).toHaveLength(0);
  await expect(stream.send(event)).rejects.toThrow("the stream is closed");
});

test("headers go with every stream; the key and number of an item are returned at once", async () => {
  const { transport, opened } = service([refusing(Code.Unavailable), acknowledging]);
  const stream = createBulkClient(transport).openEventStream({ headers: { "x-svc-receipt": "none" } });
  const { sequence, idempotencyKey, result } = await stream.send(event, "order-1");
  expect([sequence, idempotencyKey]).toEqual([0n, "order-1"]);
  expect(await result).toMatchObject({ idempotencyKey: "order-1", outcome: ItemOutcome.ANSWERED });
  expect((await stream.send(event)).idempotencyKey).toMatch(/^[0-9a-f-]{36}$/);
  await stream.close();
  expect(opened.map(({ requestHeader }) => requestHeader.get("x-svc-receipt"))).toEqual(["none", "none"]);
});

test("later changes of the program's object are not sent", async () => {
  const seen: (string | undefined)[] = [];
  const { transport } = service([
    async function* (requests) {
      for await (const { item } of requests) {
        seen.push(item?.event?.workload?.application);
        if (item !== undefined) yield [item];
      }
    },
  ]);
  const stream = createBulkClient(transport).openEventStream();
  const own = structuredClone(event);
  const sent = stream.send(own);
  own.workload.application = "another";
  await (await sent).result;
  await stream.close();
  expect(seen).toEqual(["agent"]);
});

test.each([
  ["abort", (stream: { abort(reason?: unknown): void }) => stream.abort()],
  ["its signal", (_stream: unknown, stop: AbortController) => stop.abort()],
] as const)("abandoned by %s: waiting calls reject, and unsent items are returned", async (_name, give) => {
  const { transport, opened } = service([silent]);
  const stop = new AbortController();
  const stream = createBulkClient(transport).openEventStream({ maxUnacknowledgedItems: 2, signal: stop.signal });
  const [first, second] = [await stream.send(event, "a"), await stream.send(event, "b")];
  const third = failureOf(stream.send(event, "c"));
  const closed = failureOf(stream.close());
  await expect.poll(() => opened.length).toBe(1);
  give(stream, stop);
  for (const failed of [failureOf(first.result), failureOf(second.result), third, closed]) {
    expect(await failed).toBeInstanceOf(PlatformError);
    expect(await failed).toMatchObject({ code: Code.Canceled });
  }
  expect(stream.unacknowledged().map(({ idempotencyKey }) => idempotencyKey)).toEqual(["a", "b"]);
  await expect.poll(() => opened[0]?.signal.aborted).toBe(true);
});

test("a signal that is already aborted opens nothing", async () => {
  const { transport, opened } = service([acknowledging]);
  const stream = createBulkClient(transport).openEventStream({ signal: AbortSignal.abort() });
  expect(await failureOf(stream.send(event))).toMatchObject({ code: Code.Canceled });
  expect(opened).toHaveLength(0);
});

test("abandoned after a cut: nothing is opened again", async () => {
  const { transport, opened } = service([refusing(Code.Unavailable)], {
    ...quick,
    baseDelayMs: 60_000,
    maxDelayMs: 60_000,
  });
  const stream = createBulkClient(transport).openEventStream();
  const { result } = await stream.send(event);
  await expect.poll(() => opened.length).toBe(1);
  stream.abort(new Error("enough"));
  expect(await failureOf(result)).toMatchObject({ rawMessage: "enough" });
  expect(await failureOf(stream.close())).toMatchObject({ rawMessage: "enough" });
  expect(opened).toHaveLength(1);
});

test("pauses are reported, and errors of the callback fail the stream", async () => {
  const told: number[] = [];
  const onRetry = (_problem: unknown, delayMs: number) => {
    told.push(delayMs);
    if (told.length === 2) throw new Error("no more");
  };
  const { transport } = service([refusing(Code.Unavailable)], { ...quick, onRetry } as typeof quick);
  const stream = createBulkClient(transport).openEventStream();
  const { result } = await stream.send(event);
  expect(await failureOf(result)).toMatchObject({ rawMessage: "no more" });
  expect(told).toHaveLength(2);
  expect(await failureOf(stream.send(event))).toBeInstanceOf(PlatformError);
});

test("without retries, one stream is opened for unacknowledged items", async () => {
  const { transport, opened } = service([refusing(Code.Unavailable)], "no retries");
  const stream = createBulkClient(transport).openEventStream();
  const { result } = await stream.send(event);
  expect(await failureOf(result)).toMatchObject({ code: Code.Unavailable });
  expect(opened).toHaveLength(1);
});

test("JSON refuses streams", async () => {
  const transport = createRestTransport({ baseUrl: "http://127.0.0.1:1" });
  const stream = createBulkClient(transport).openRegistrationStream();
  const { result } = await stream.send({ artifactDigest: "sha256:00" });
  expect(await failureOf(result)).toMatchObject({ code: Code.Unimplemented });
});
