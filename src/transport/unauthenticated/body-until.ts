/** The same body, which ends when it ends or when the signal aborts, whichever comes first. */
export async function* bodyUntil(body: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]();
  const enough: IteratorResult<Uint8Array> = { done: true, value: undefined };
  // Set anew for each piece: a promise that every piece is raced with would keep what it was raced with.
  let stop: (() => void) | undefined;
  const onAbort = () => stop?.();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    while (!signal.aborted) {
      const next = Promise.withResolvers<IteratorResult<Uint8Array>>();
      stop = () => next.resolve(enough);
      iterator.next().then(next.resolve, next.reject);
      const { done, value } = await next.promise;
      if (done === true) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
