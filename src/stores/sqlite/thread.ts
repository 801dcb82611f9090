/** A supervised worker thread of the store: calls go to it, and it is replaced when it dies. */

import { Worker } from "node:worker_threads";
import { threadEnvironment } from "../../base/thread-environment.ts";
import type { StoreLogger } from "../backend.ts";
import { unavailable } from "../errors.ts";
import { type StoreFailure, toError } from "./errors.ts";
import type { NumberedRequest, WorkerData, WorkerMessage, WorkerRequest } from "./protocol.ts";

/** Bounds of a thread. Milliseconds. */
export interface ThreadLimits {
  /**
   * A call that the thread has worked on for this time is refused, with all that wait behind it, and the thread
   * replaced. The time that a call waits for others does not count.
   */
  readonly responseTimeoutMs: number;
  /** First pause before a dead thread is replaced; it doubles with each failure in a row. */
  readonly minRestartDelayMs: number;
  readonly maxRestartDelayMs: number;
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

export class StoreThread {
  readonly #data: WorkerData;
  readonly #limits: ThreadLimits;
  readonly #logger: StoreLogger | undefined;
  /** In the order of their calls, in which the thread answers: it works on the first of them. */
  readonly #pending = new Map<number, Pending>();
  #watch: NodeJS.Timeout | undefined;
  #worker: Worker | undefined;
  #ready = Promise.withResolvers<void>();
  #isReady = false;
  #nextId = 0;
  #failuresInARow = 0;
  #restart: NodeJS.Timeout | undefined;
  #closing = false;
  #movedReported = false;

  constructor(data: WorkerData, limits: ThreadLimits, logger: StoreLogger | undefined) {
    this.#data = data;
    this.#limits = limits;
    this.#logger = logger;
    this.#start();
  }

  /** Resolves when the thread first serves; rejects when it died before it did. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Rejects with `store_unavailable` when the thread is down, dies, or takes too long; else as `toError` says. */
  call(request: WorkerRequest): Promise<unknown> {
    const worker = this.#worker;
    if (worker === undefined || !this.#isReady)
      return Promise.reject(unavailable("The store's thread is starting again."));
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const id = this.#nextId++;
    this.#pending.set(id, { resolve, reject });
    if (this.#pending.size === 1) this.#watchFirst(worker);
    worker.postMessage({ id, request } satisfies NumberedRequest);
    return promise;
  }

  /** Lets the thread finish what it was given, close its connection and end. */
  async close(): Promise<void> {
    const worker = this.#worker;
    this.#closing = true;
    clearTimeout(this.#restart);
    if (worker === undefined) return;
    const exited = new Promise((resolve) => worker.once("exit", resolve));
    if (this.#isReady) await this.call({ call: "close" }).catch(() => worker.terminate());
    else await worker.terminate();
    await exited;
  }

  #start(): void {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: this.#data,
      name: `store-${this.#data.role}`,
      env: threadEnvironment(),
      // What a thread makes is gone after each call: a young generation of the usual 16 MiB only takes memory.
      resourceLimits: { maxYoungGenerationSizeMb: 4 },
    });
    this.#worker = worker;
    let cause = "The store's thread ended.";
    worker.on("message", (message: WorkerMessage) => this.#receive(worker, message));
    worker.on("error", (error: unknown) => {
      cause = error instanceof Error ? error.message : String(error);
    });
    worker.on("exit", () => this.#fail(worker, cause));
  }

  /** Gives the call that the thread works on its time. */
  #watchFirst(worker: Worker): void {
    clearTimeout(this.#watch);
    const [first] = this.#pending.keys();
    if (first === undefined) return;
    this.#watch = setTimeout(() => {
      // An answer may have come while this thread was busy itself: it is read first.
      setImmediate(() => {
        if (this.#pending.has(first)) this.#fail(worker, "The store did not answer in time.");
      });
    }, this.#limits.responseTimeoutMs);
  }

  #receive(worker: Worker, message: WorkerMessage): void {
    if (message.type === "ready") {
      this.#isReady = true;
      this.#ready.resolve();
      return;
    }
    const pending = this.#pending.get(message.id);
    if (pending === undefined) return;
    this.#pending.delete(message.id);
    this.#watchFirst(worker);
    this.#failuresInARow = 0;
    if (message.type === "result") {
      this.#movedReported = false;
      pending.resolve(message.result);
      return;
    }
    this.#reportMoved(message.failure);
    pending.reject(toError(message.failure));
  }

  #reportMoved({ kind, message }: StoreFailure): void {
    if (kind !== "moved" || this.#movedReported) return;
    this.#movedReported = true;
    this.#logger?.warn(
      { role: this.#data.role, cause: message },
      "the store's files are not in their place: nothing is recorded until they are back, or the service is restarted",
    );
  }

  /** The worker is no more, or is to be no more: whoever waits for it is refused, and another is started. */
  #fail(worker: Worker, cause: string): void {
    if (this.#worker !== worker) return; // said already
    this.#worker = undefined;
    this.#isReady = false;
    void worker.terminate();
    clearTimeout(this.#watch);
    for (const { reject } of this.#pending.values()) reject(unavailable(cause));
    this.#pending.clear();
    if (this.#closing) return;
    this.#ready.reject(unavailable(cause));
    const { minRestartDelayMs, maxRestartDelayMs } = this.#limits;
    const delayMs = Math.min(maxRestartDelayMs, minRestartDelayMs * 2 ** this.#failuresInARow);
    this.#failuresInARow += 1;
    this.#logger?.warn({ role: this.#data.role, cause, restartInMs: delayMs }, "a thread of the record store ended");
    this.#restart = setTimeout(() => this.#start(), delayMs);
  }
}
