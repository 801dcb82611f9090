/**
 * Makes a function that runs the action for the first who asks; those who ask while it runs get the same result. So
 * the cost of many probes is that of one.
 */
export function shareRuns<T>(action: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= action().finally(() => {
      running = undefined;
    });
    return running;
  };
}
