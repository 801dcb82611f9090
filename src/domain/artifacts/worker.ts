/** Entry of the hashing thread: takes one job at a time and answers it. */
import { parentPort } from "node:worker_threads";
import { hashObject, type Job } from "./hash-object.ts";

parentPort?.on("message", (job: Job) => parentPort?.postMessage(hashObject(job)));
