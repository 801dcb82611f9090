/** Entry of the hashing thread: takes one job at a time and answers it. */
import { parentPort } from "node:worker_threads";
import { hashObject } from "./hash-object.ts";
import type { Job } from "./job.ts";

parentPort?.on("message", (job: Job) => parentPort?.postMessage(hashObject(job)));
