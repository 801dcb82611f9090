/**
 * Checks a bundle in a thread of its own. Parsing, type-checking and comparing take about 1 ms a policy, which is little at
 * start-up and, with a thousand policies, a pause for every caller of a service that runs. So is what they come to, if all
 * of it is taken in one turn of the event loop: it comes in parts, each when the one before was taken.
 */
import { Worker } from "node:worker_threads";
import { threadEnvironment } from "../../base/thread-environment.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import type { ComparedBundle } from "./check.ts";
import { CheckAssembly, type CheckPart } from "./check-parts.ts";

/** The same as `compareBundle`, in a thread that ends with it. Rejects where the thread fails. */
export async function checkBundleInThread(bundle: PolicyBundle): Promise<ComparedBundle> {
  const worker = new Worker(new URL("./check-worker.ts", import.meta.url), {
    workerData: bundle,
    env: threadEnvironment(),
  });
  const { promise, resolve, reject } = Promise.withResolvers<ComparedBundle>();
  const assembly = new CheckAssembly();
  worker.on("message", (part: CheckPart) => {
    const whole = assembly.take(part);
    if (whole === undefined) worker.postMessage("next");
    else resolve(whole);
  });
  worker.once("error", reject);
  worker.once("exit", (code) => reject(new Error(`the thread that checks policies ended with ${code}`)));
  try {
    return await promise;
  } finally {
    await worker.terminate();
  }
}
