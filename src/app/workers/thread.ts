/** One worker of the service, as the main thread sees it. */

import type { MessagePort } from "node:worker_threads";
import { Worker } from "node:worker_threads";
import { threadEnvironment } from "../../base/thread-environment.ts";
import type { MetricsSnapshot } from "../../telemetry/merged-metrics.ts";
import { Peer, type PeerMessage } from "./peer.ts";
import type { MainCalls, WorkerCalls, WorkerStart } from "./protocol.ts";

/** What the main thread does for this worker, besides hearing that it has been built. */
export type CallsFor = Omit<MainCalls, "built">;

export interface ThreadOptions {
  readonly start: WorkerStart;
  /** What of it is handed over. */
  readonly ports: readonly MessagePort[];
  readonly calls: CallsFor;
  /** Environment of the process, which the worker is a part of. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

export class WorkerThread {
  readonly peer: Peer<WorkerCalls, MainCalls>;
  /** Resolves when it can listen; rejects with the reason where it does not come to that. */
  readonly built: Promise<void>;
  /** Resolves with the cause when it is no more. */
  readonly ended: Promise<Error>;
  /** Whether it takes calls. */
  isListening = false;
  /** What it had measured when it was asked last. */
  measured: MetricsSnapshot = [];
  readonly #worker: Worker;

  constructor({ start, ports, calls, env }: ThreadOptions) {
    const built = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<Error>();
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: start,
      transferList: [...ports],
      name: `worker-${start.index + 1}`,
      env: { ...env, ...threadEnvironment() },
    });
    this.#worker = worker;
    this.peer = new Peer((message) => worker.postMessage(message), {
      ...calls,
      built: (problem) => (problem === undefined ? built.resolve() : built.reject(new Error(problem))),
    });
    worker.on("message", (message: PeerMessage) => this.peer.receive(message));
    let cause = new Error("it ended by itself");
    worker.on("error", (error: unknown) => {
      cause = error instanceof Error ? error : new Error(String(error));
    });
    worker.on("exit", () => {
      this.isListening = false;
      this.peer.end(cause);
      built.reject(cause);
      ended.resolve(cause);
    });
    this.built = built.promise;
    this.ended = ended.promise;
    built.promise.catch(() => {});
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate();
  }
}
