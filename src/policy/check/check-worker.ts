/** The thread of `check-thread.ts`: checks the one bundle that it is started with. */
import { parentPort, workerData } from "node:worker_threads";
import type { PolicyBundle } from "../load/bundle.ts";
import { compareBundle } from "./check.ts";

parentPort?.postMessage(compareBundle(workerData as PolicyBundle));
