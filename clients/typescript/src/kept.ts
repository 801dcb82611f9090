/**
 * Keeps what `fetch` resolves with. Those who ask while it is being fetched share it; what is older than `keepMs` is
 * not handed out, and a failure is not kept.
 *
 * @param now milliseconds that never go back
 */
export function kept<Value>(
  fetch: () => Promise<Value>,
  keepMs: number,
  now: () => number = () => performance.now(),
): () => Promise<Value> {
  let held: { readonly value: Value; readonly staleAtMs: number } | undefined;
  let fetching: Promise<Value> | undefined;
  return async () => {
    if (held !== undefined && now() < held.staleAtMs) return held.value;
    fetching ??= refresh().finally(() => {
      fetching = undefined;
    });
    return fetching;
  };

  async function refresh(): Promise<Value> {
    // An answer is as old as the question.
    const askedAtMs = now();
    const value = await fetch();
    held = { value, staleAtMs: askedAtMs + keepMs };
    return value;
  }
}
