/** The thread of `check-thread.ts`: checks the one bundle that it is started with. */
import { parentPort, workerData } from "node:worker_threads";
import type { PolicyBundle } from "../load/bundle.ts";
import { compareBundle } from "./check.ts";
import { checkParts } from "./check-parts.ts";

const remaining = checkParts(compareBundle(workerData as PolicyBundle));
const handOver = () => parentPort?.postMessage(remaining.next().value);
parentPort?.on("message", handOver);
handOver();
