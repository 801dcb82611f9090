/** The same body, which ends when it ends or when the signal aborts, whichever comes first. */
export async function* bodyUntil(body: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]();
  const enough = Promise.withResolvers<{ readonly done: true; readonly value: undefined }>();
  const onAbort = () => enough.resolve({ done: true, value: undefined });
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    for (;;) {
      const { done, value } = await Promise.race([enough.promise, iterator.next()]);
      if (done === true) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
