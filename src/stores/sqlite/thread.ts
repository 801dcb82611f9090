/** Threads of the store. */
import { Worker } from "node:worker_threads";
import { threadEnvironment } from "../../base/thread-environment.ts";
import { unavailable } from "../files/errors.ts";
import type { StoreLogger } from "../sql/backend.ts";
import { type StoreFailure, toError } from "./errors.ts";
import type { OpenedFile } from "./file-identity.ts";
import type { WorkerData, WorkerMessage, WorkerRequest } from "./protocol.ts";

/** First pause before a dead thread is replaced, before a client's second attempt; doubles with each failure in a row. */
const minRestartDelayMs = 50;
const maxRestartDelayMs = 2_000;

/**
 * A supervised thread: starts with the first call, since an idle service saves its 10 MiB; answers calls in order over
 * one port; and is replaced when it dies.
 */
export class StoreThread {
  readonly #data: WorkerData;
  readonly #responseTimeoutMs: number;
  readonly #logger: StoreLogger | undefined;
  readonly #onLongLog: (files: readonly OpenedFile[]) => void;
  /** Settles when the thread first serves, or does not; undefined before its start. */
  #ready: PromiseWithResolvers<void> | undefined;
  #worker: Worker | undefined;
  #isReady = false;
  /** In the order of the calls: the thread works on the first. */
  #pending: PromiseWithResolvers<unknown>[] = [];
  #watch: NodeJS.Timeout | undefined;
  #failuresInARow = 0;
  #restart: NodeJS.Timeout | undefined;
  #closing = false;
  #movedReported = false;

  /**
   * @param responseTimeoutMs a call that the thread has worked on for this time is rejected, with all behind it, and the
   *   thread is replaced; the time in the queue does not count
   * @param onLongLog called with the thread's files after a commit that leaves a long write-ahead log
   */
  constructor(
    data: WorkerData,
    responseTimeoutMs: number,
    logger: StoreLogger | undefined,
    onLongLog = (_: readonly OpenedFile[]) => {},
  ) {
    this.#data = data;
    this.#responseTimeoutMs = responseTimeoutMs;
    this.#logger = logger;
    this.#onLongLog = onLongLog;
  }

  /** Whether the thread was started. */
  get isStarted(): boolean {
    return this.#ready !== undefined;
  }

  /** Starts the thread, if that is needed. Resolves when it serves for the first time; rejects if it never does. */
  start(): Promise<void> {
    if (this.#ready === undefined) {
      this.#ready = Promise.withResolvers();
      // If the start fails, the next call reports it.
      this.#ready.promise.catch(() => {});
      this.#begin();
    }
    return this.#ready.promise;
  }

  /** Rejects with `store_unavailable` if the thread is down, dies, or takes too long; otherwise as `toError` says. */
  async call(call: string, args: readonly unknown[]): Promise<unknown> {
    if (this.#closing) throw unavailable("The store is closed.");
    const started = this.start();
    if (!this.#isReady) await started.catch(() => {});
    return this.#post({ call, args });
  }

  /** Lets the thread finish its calls; accepts no further ones. */
  async close(): Promise<void> {
    const worker = this.#worker;
    this.#closing = true;
    clearTimeout(this.#restart);
    if (worker === undefined) return;
    const exited = new Promise((resolve) => worker.once("exit", resolve));
    if (this.#isReady) await this.#post({ call: "close", args: [] }).catch(() => worker.terminate());
    else await worker.terminate();
    await exited;
  }

  #post(request: WorkerRequest): Promise<unknown> {
    if (this.#worker === undefined || !this.#isReady)
      return Promise.reject(unavailable("The store's thread is starting again."));
    const pending = Promise.withResolvers<unknown>();
    this.#pending.push(pending);
    if (this.#pending.length === 1) this.#watchFirst(this.#worker);
    this.#worker.postMessage(request);
    return pending.promise;
  }

  #begin(): void {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: this.#data,
      name: `store-${this.#data.role}`,
      env: threadEnvironment(),
      // A thread's objects die after each call: a young generation of the usual size only takes memory. A full batch of
      // the writer must fit, or the collector runs repeatedly during it.
      resourceLimits: { maxYoungGenerationSizeMb: this.#data.role === "writer" ? 16 : 4 },
    });
    this.#worker = worker;
    let cause = "The store's thread ended.";
    worker.on("message", (message: WorkerMessage) => {
      if (this.#worker === worker) this.#receive(message, worker);
    });
    worker.on("error", (error: unknown) => {
      cause = error instanceof Error ? error.message : String(error);
    });
    worker.on("exit", () => this.#fail(worker, cause));
  }

  #receive(message: WorkerMessage, worker: Worker): void {
    if (message.type === "ready") {
      this.#isReady = true;
      this.#ready?.resolve();
      return;
    }
    if (message.type === "long_log") {
      this.#onLongLog(message.files);
      return;
    }
    this.#failuresInARow = 0;
    if (message.type === "result") this.#movedReported = false;
    const pending = this.#pending.shift();
    this.#watchFirst(worker);
    if (message.type === "result") pending?.resolve(message.result);
    else {
      this.#reportMoved(message.failure);
      pending?.reject(toError(message.failure));
    }
  }

  /** Starts the timeout of the first call. The time in the queue does not count. */
  #watchFirst(worker: Worker): void {
    clearTimeout(this.#watch);
    const [first] = this.#pending;
    if (first === undefined) return;
    this.#watch = setTimeout(() => {
      // An answer may have arrived while this thread was busy: it is read first.
      setImmediate(() => {
        if (this.#pending[0] === first) this.#fail(worker, "The store did not answer in time.");
      });
    }, this.#responseTimeoutMs);
  }

  #reportMoved({ kind, message }: StoreFailure): void {
    if (kind !== "moved" || this.#movedReported) return;
    this.#movedReported = true;
    this.#logger?.warn(
      { role: this.#data.role, cause: message },
      "the store's files are not in their place: nothing is recorded until they are back, or the service is restarted",
    );
  }

  /** The worker is gone or must go: rejects all calls, and starts another. */
  #fail(worker: Worker, cause: string): void {
    if (this.#worker !== worker) return; // said already
    this.#worker = undefined;
    this.#isReady = false;
    void worker.terminate();
    clearTimeout(this.#watch);
    for (const { reject } of this.#pending) reject(unavailable(cause));
    this.#pending = [];
    this.#ready?.reject(unavailable(cause));
    if (this.#closing) return;
    const delayMs = Math.min(maxRestartDelayMs, minRestartDelayMs * 2 ** this.#failuresInARow);
    this.#failuresInARow += 1;
    const said = { role: this.#data.role, cause, restartInMs: delayMs };
    this.#logger?.warn(said, "a thread of the record store ended");
    this.#restart = setTimeout(() => this.#begin(), delayMs);
  }
}

/** The methods of an object in a thread, for callers in another. */
export type Remote<Target> = {
  readonly [Name in keyof Target]: Target[Name] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};

export function remote<Target>(thread: StoreThread): Remote<Target> {
  return new Proxy({} as Remote<Target>, {
    get:
      (_, name) =>
      (...args: unknown[]) =>
        thread.call(String(name), args),
  });
}
