/**
 * Resolves as the work does, which goes on for others whoever leaves; rejects with the refusal when the caller's
 * deadline comes first.
 * @param work never rejects
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal, refusal: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(refusal());
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    void work.then((value) => {
      signal.removeEventListener("abort", onAbort);
      resolve(value);
    });
  });
}
