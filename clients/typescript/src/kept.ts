/**
 * Caches the result of `fetch`. Concurrent callers share a fetch; results older than `keepMs` are not returned, and
 * failures are not cached.
 */
export function kept<Value>(fetch: () => Promise<Value>, keepMs: number): () => Promise<Value> {
  let held: { readonly value: Value; readonly staleAtMs: number } | undefined;
  let fetching: Promise<Value> | undefined;
  return async () => {
    if (held !== undefined && performance.now() < held.staleAtMs) return held.value;
    fetching ??= refresh().finally(() => {
      fetching = undefined;
    });
    return fetching;
  };

  async function refresh(): Promise<Value> {
    // An answer is as old as its request, by a clock that never goes back.
    const askedAtMs = performance.now();
    const value = await fetch();
    held = { value, staleAtMs: askedAtMs + keepMs };
    return value;
  }
}

/** The result of work that others wait for too: if the signal ends this wait, the work goes on. */
export function unlessAborted<Value>(work: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
