/**
 * Checks a bundle in its own thread. Parsing, type-checking and comparing take about 1 ms per policy, which would pause
 * a running service with a thousand policies. The result is handed over set by set, each when the one before was taken,
 * because deserialising all of it in one turn of the event loop would be a pause too.
 */
import { inThread } from "../../base/thread-call.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import type { CheckedBundle, CheckedSet } from "./check.ts";

/** A set by its name, and at the end the rest of the result. */
type FromChecker = readonly [string, CheckedSet] | Omit<CheckedBundle, "sets">;

/** The same as `checkBundle`, in a thread that ends with it. Rejects if the thread fails. */
export function checkBundleInThread(bundle: PolicyBundle): Promise<CheckedBundle> {
  const sets = new Map<string, CheckedSet>();
  return inThread(new URL("./check-worker.ts", import.meta.url), bundle, (message: FromChecker, worker) => {
    if ("problems" in message) return { sets, ...message };
    sets.set(...message);
    worker.postMessage("taken");
    return undefined;
  });
}
