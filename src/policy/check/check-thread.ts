/**
 * Checks a bundle in a thread of its own. Parsing, type-checking and comparing take about 1 ms a policy, which is little at
 * start-up and, with a thousand policies, a pause for every caller of a service that runs. So is the bundle, and what is
 * found out about it, if all of it is handed over in one turn of the event loop: both go in parts, each when the one before
 * was taken.
 */
import { Worker } from "node:worker_threads";
import { threadEnvironment } from "../../base/thread-environment.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { type BundlePart, bundleParts } from "../load/bundle-parts.ts";
import type { ComparedBundle } from "./check.ts";
import { CheckAssembly, type CheckStart, type FromChecker, type ToChecker } from "./check-parts.ts";

/** What goes with the start of the thread, so that it waits for nobody: of text, as much as takes a millisecond. */
const maxStartCharacters = 1_000_000;

function startOf(remaining: Generator<BundlePart, undefined>): CheckStart {
  const parts: BundlePart[] = [];
  for (let characters = 0; characters < maxStartCharacters; ) {
    const { value } = remaining.next();
    if (value === undefined) return { parts, isWhole: true };
    parts.push(value);
    if ("files" in value) for (const text of Object.values(value.files)) characters += text.length;
  }
  return { parts, isWhole: false };
}

/** The same as `compareBundle`, in a thread that ends with it. Rejects where the thread fails. */
export async function checkBundleInThread(bundle: PolicyBundle): Promise<ComparedBundle> {
  const remaining = bundleParts(bundle);
  const worker = new Worker(new URL("./check-worker.ts", import.meta.url), {
    workerData: startOf(remaining),
    env: threadEnvironment(),
  });
  const { promise, resolve, reject } = Promise.withResolvers<ComparedBundle>();
  const assembly = new CheckAssembly();
  worker.on("message", (message: FromChecker) => {
    try {
      const whole = message === "next" ? undefined : assembly.take(message);
      if (whole !== undefined) resolve(whole);
      else worker.postMessage((remaining.next().value ?? "more") satisfies ToChecker);
    } catch (error) {
      reject(error);
    }
  });
  worker.once("error", reject);
  worker.once("exit", (code) => reject(new Error(`the thread that checks policies ended with ${code}`)));
  try {
    return await promise;
  } finally {
    await worker.terminate();
  }
}
