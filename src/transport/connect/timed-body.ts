import type { FastifyRequest } from "fastify";
import { bodyTooSlow } from "../body.ts";
import { continueIfExpected } from "../exchange.ts";

/**
 * The same body, refused as too slow where it is not complete in time. The refusal is noted on the call, because
 * Connect reports any error of a body as internal.
 */
export async function* timedBody(
  body: AsyncIterable<Uint8Array>,
  { raw, response, call }: FastifyRequest,
  timeoutMs: number,
): AsyncGenerator<Uint8Array> {
  continueIfExpected(raw, response);
  const iterator = body[Symbol.asyncIterator]();
  const timer: { id?: NodeJS.Timeout } = {};
  const tooSlow = new Promise<never>((_resolve, reject) => {
    timer.id = setTimeout(() => {
      call.refusal = bodyTooSlow();
      reject(call.refusal);
    }, timeoutMs);
  });
  // Where the body is in time nobody waits for this promise.
  tooSlow.catch(() => {});
  try {
    for (;;) {
      const { done, value } = await Promise.race([iterator.next(), tooSlow]);
      if (done === true) return;
      yield value;
    }
  } finally {
    clearTimeout(timer.id);
  }
}
