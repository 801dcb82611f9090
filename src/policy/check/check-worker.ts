/** The thread of `check-thread.ts`: checks the one bundle that it is given, in parts where it is large. */
import { parentPort, workerData } from "node:worker_threads";
import { BundleAssembly } from "../load/bundle-parts.ts";
import { compareBundle } from "./check.ts";
import { type CheckPart, type CheckStart, checkParts, type FromChecker, type ToChecker } from "./check-parts.ts";

const assembly = new BundleAssembly();
let remaining: Generator<CheckPart, undefined> | undefined;

function take(message: ToChecker): void {
  if (typeof message === "object") assembly.take(message);
  else remaining ??= checkParts(compareBundle(assembly.whole()));
  parentPort?.postMessage((remaining?.next().value ?? "next") satisfies FromChecker);
}

parentPort?.on("message", take);
const { parts, isWhole } = workerData as CheckStart;
for (const part of parts) assembly.take(part);
if (isWhole) take("more");
else parentPort?.postMessage("next" satisfies FromChecker);
