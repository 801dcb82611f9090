/** Entry point of a worker: a thread that serves callers. What it is told, and tells, goes over its port. */
import { parentPort, workerData } from "node:worker_threads";
import { Peer, type PeerMessage } from "./peer.ts";
import type { MainCalls, WorkerCalls, WorkerStart } from "./protocol.ts";
import { openWorker } from "./serving.ts";

const port = parentPort;
if (port === null) throw new Error("This file runs in a worker thread.");

const worker = Promise.withResolvers<WorkerCalls>();
const main: Peer<MainCalls, WorkerCalls> = new Peer((message) => port.postMessage(message), {
  listen: async (...given) => (await worker.promise).listen(...given),
  preparePolicy: async (...given) => (await worker.promise).preparePolicy(...given),
  installPolicy: async (...given) => (await worker.promise).installPolicy(...given),
  useCedar: async (...given) => (await worker.promise).useCedar(...given),
  takeFiles: async (...given) => (await worker.promise).takeFiles(...given),
  policyChanged: async (...given) => (await worker.promise).policyChanged(...given),
  followKeys: async (...given) => (await worker.promise).followKeys(...given),
  checks: async () => (await worker.promise).checks(),
  metrics: async () => (await worker.promise).metrics(),
  close: async () => (await worker.promise).close(),
});
port.on("message", (message: PeerMessage) => main.receive(message));
try {
  worker.resolve(await openWorker(workerData as WorkerStart, main));
  main.tell("built");
} catch (error) {
  main.tell("built", error instanceof Error ? error.message : String(error));
  port.close();
}
