import type { FastifyRequest } from "fastify";
import { bodyTooSlow } from "../body.ts";
import { abortRefusal } from "../deadline.ts";
import { continueIfExpected } from "../exchange.ts";

/**
 * The same body, refused as too slow where it is not complete in time, or with the reason of `deadline` once that is
 * aborted. The refusal is noted on the call, because Connect reports any error of a body as internal.
 *
 * @param read gets what is read, in order
 */
export async function* timedBody(
  body: AsyncIterable<Uint8Array>,
  { raw, response, call }: FastifyRequest,
  timeoutMs: number,
  deadline: AbortSignal,
  read: Uint8Array[],
): AsyncGenerator<Uint8Array> {
  continueIfExpected(raw, response);
  const iterator = body[Symbol.asyncIterator]();
  const ended = Promise.withResolvers<never>();
  // Where the body is in time nobody waits for this promise.
  ended.promise.catch(() => {});
  const end = (refusal: ReturnType<typeof abortRefusal>) => {
    call.refusal = refusal;
    ended.reject(refusal);
  };
  const onAbort = () => end(abortRefusal(deadline));
  const timer = setTimeout(() => end(bodyTooSlow()), timeoutMs);
  deadline.addEventListener("abort", onAbort, { once: true });
  if (deadline.aborted) onAbort();
  try {
    for (;;) {
      const { done, value } = await Promise.race([ended.promise, iterator.next()]);
      if (done === true) return;
      read.push(value);
      yield value;
    }
  } finally {
    clearTimeout(timer);
    deadline.removeEventListener("abort", onAbort);
  }
}
