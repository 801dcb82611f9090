/** What ends a stream is what the log line says of it. */
import { ConnectError, createContextValues, type Interceptor } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import type { RequestId } from "../../../src/base/ids.ts";
import { deadlinePassed } from "../../../src/http/deadline.ts";
import { type Call, kCall } from "../../../src/transport/calls/call.ts";
import { reportStreamErrors } from "../../../src/transport/connect/streams.ts";

type AnyFn = Parameters<Interceptor>[0];

/** The reason that is noted of a stream whose messages end as `run` does. */
async function reasonOf(run: (controller: AbortController) => void): Promise<string | undefined> {
  const call: Call = { requestId: "r" as RequestId, receivedAtMs: 0, headerValues: () => [] };
  const controller = new AbortController();
  const messages = (async function* () {
    yield {};
    run(controller);
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

test.each<[string, (controller: AbortController) => void, string | undefined]>([
  ["its end", () => {}, undefined],
  [
    "a caller who leaves without a word",
    (controller) => {
      controller.abort();
      controller.signal.throwIfAborted();
    },
    "canceled",
  ],
  [
    "a caller who leaves with an error of the connection",
    (controller) => {
      controller.abort(new Error("http/2 stream closed with error code CANCEL (0x8)"));
      controller.signal.throwIfAborted();
    },
    "canceled",
  ],
  [
    "the deadline",
    (controller) => {
      controller.abort(deadlinePassed);
      throw new Error("what was under way failed");
    },
    "deadline_exceeded",
  ],
  [
    "a refusal, though the caller leaves",
    (controller) => {
      controller.abort();
      throw new ServiceError("store_unavailable", "the store is away");
    },
    "store_unavailable",
  ],
  [
    "a defect, though the caller leaves",
    (controller) => {
      controller.abort();
      throw new TypeError("undefined is not a function");
    },
    "internal",
  ],
])("of %s", async (_what, run, reason) => expect(await reasonOf(run)).toBe(reason));
