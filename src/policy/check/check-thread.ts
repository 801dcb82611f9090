/**
 * Checks a bundle in its own thread. Parsing, type-checking and comparing take about 1 ms per policy, which would pause
 * a running service with a thousand policies. The result is handed over set by set, each when the one before was taken,
 * because deserialising all of it in one turn of the event loop would be a pause too.
 */
import { Worker } from "node:worker_threads";
import { threadEnvironment } from "../../base/thread-environment.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import type { CheckedSet, ComparedBundle } from "./check.ts";

/** A set by its name, and at the end the rest of the result. */
type FromChecker = readonly [string, CheckedSet] | Omit<ComparedBundle, "sets">;

/** The same as `compareBundle`, in a thread that ends with it. Rejects if the thread fails. */
export async function checkBundleInThread(bundle: PolicyBundle): Promise<ComparedBundle> {
  const worker = new Worker(new URL("./check-worker.ts", import.meta.url), {
    workerData: bundle,
    env: threadEnvironment(),
  });
  const { promise, resolve, reject } = Promise.withResolvers<ComparedBundle>();
  const sets = new Map<string, CheckedSet>();
  worker.on("message", (message: FromChecker) => {
    if ("problems" in message) return resolve({ sets, ...message });
    sets.set(...message);
    worker.postMessage("taken");
  });
  worker.once("error", reject);
  worker.once("exit", (code) => reject(new Error(`the thread that checks policies ended with ${code}`)));
  try {
    return await promise;
  } finally {
    await worker.terminate();
  }
}
