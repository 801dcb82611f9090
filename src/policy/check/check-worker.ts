/** The thread of `check-thread.ts`: checks one bundle and hands over the result set by set. */
import { once } from "node:events";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import type { PolicyBundle } from "../load/bundle.ts";
import { checkBundle } from "./check.ts";

const port = parentPort as MessagePort;
const { sets, ...rest } = checkBundle(workerData as PolicyBundle);
for (const set of sets) {
  const taken = once(port, "message");
  port.postMessage(set);
  await taken;
}
port.postMessage(rest);
