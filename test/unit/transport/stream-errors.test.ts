/** What ends a stream is what the log line says of it. */
import { ConnectError, createContextValues, type Interceptor } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import type { RequestId } from "../../../src/base/ids.ts";
import { deadlinePassed } from "../../../src/http/deadline.ts";
import { type Call, kCall } from "../../../src/transport/calls/call.ts";
import { reportStreamErrors } from "../../../src/transport/connect/streams.ts";

type AnyFn = Parameters<Interceptor>[0];

/** How the messages of a stream end. */
interface End {
  /** What the call's signal is aborted with; undefined is an abort without a reason. */
  readonly aborted?: unknown;
  /** What is thrown then; by default what the signal says. */
  readonly thrown?: Error;
}

/** The reason that is noted of a stream whose messages end so. */
async function reasonOf(end: End): Promise<string | undefined> {
  const call = { requestId: "r" as RequestId, receivedAtMs: 0 } as Call;
  const controller = new AbortController();
  const messages = (async function* () {
    yield {};
    if ("aborted" in end) controller.abort(end.aborted);
    if (end.thrown !== undefined) throw end.thrown;
    controller.signal.throwIfAborted();
  })();
  const answer = reportStreamErrors("svc-platform-api")((async () => ({ stream: true, message: messages })) as never);
  const request = {
    signal: controller.signal,
    header: new Headers(),
    contextValues: createContextValues().set(kCall, call),
  };
  const { message } = (await answer(request as never)) as Awaited<ReturnType<AnyFn>> & { stream: true };
  try {
    for await (const _ of message);
  } catch (error) {
    expect(error).toBeInstanceOf(ConnectError);
  }
  return call.refusal?.reason;
}

const closed = new Error("http/2 stream closed with error code CANCEL (0x8)");
const refused = new ServiceError("store_unavailable", "the store is away");

test.each<[string, End, string | undefined]>([
  ["its end", {}, undefined],
  ["a caller who leaves without a word", { aborted: undefined }, "canceled"],
  ["a caller who leaves with an error of the connection", { aborted: closed }, "canceled"],
  ["the deadline", { aborted: deadlinePassed, thrown: new Error("work failed") }, "deadline_exceeded"],
  ["a refusal, though the caller leaves", { aborted: undefined, thrown: refused }, "store_unavailable"],
  ["a defect, though the caller leaves", { aborted: undefined, thrown: new TypeError("no function") }, "internal"],
])("the log line of a stream has the reason of %s", async (_what, end, reason) =>
  expect(await reasonOf(end)).toBe(reason),
);
