/** What is built once in a run, for all files that need it. */
import { statSync } from "node:fs";

/** Whether this run has made the file, in whichever test file. */
export function isOfThisRun(path: string): boolean {
  const madeMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return madeMs > Number(process.env.TEST_RUN_STARTED_MS);
}
