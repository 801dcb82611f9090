/** A thread of the fuzzer: its share of the connections, so many at a time. Tells its counts twice a second. */
import { parentPort, workerData } from "node:worker_threads";
import { type FuzzOptions, fuzzConnection, noCounts } from "../test/harness/fuzz/connection.ts";

export interface FuzzShare extends FuzzOptions {
  /** Numbers of its connections: the first one, and the step from each to the next. */
  readonly first: number;
  readonly step: number;
  /** Connections at a time. */
  readonly concurrency: number;
}

const share = workerData as FuzzShare;
const counts = noCounts();
let next = share.first;
const telling = setInterval(() => parentPort?.postMessage({ counts, next }), 500);
let stopped = false;
parentPort?.once("message", () => {
  stopped = true;
});

const one = async () => {
  while (!stopped) {
    const number = next;
    next += share.step;
    await fuzzConnection(number, share, counts);
  }
};
await Promise.all(Array.from({ length: share.concurrency }, one));
clearInterval(telling);
parentPort?.postMessage({ counts, next });
parentPort?.close();
