/** Threads of the store: they are started on demand, serve calls, and are replaced when they die. */
import { Worker } from "node:worker_threads";
import { threadEnvironment } from "../../base/thread-environment.ts";
import { unavailable } from "../files/errors.ts";
import type { StoreLogger } from "../sql/backend.ts";
import { type StoreFailure, toError } from "./errors.ts";
import type { OpenedFile } from "./file-identity.ts";
import type { NumberedRequest, WorkerAnswer, WorkerData, WorkerMessage, WorkerRequest } from "./protocol.ts";

/** A thread of the store, as its callers see it. */
export interface StoreCaller {
  /** Resolves when the thread serves for the first time; rejects if it never does. */
  readonly ready: Promise<void>;
  /** Rejects with `store_unavailable` if the thread is down, dies, or takes too long; otherwise as `toError` says. */
  call(request: WorkerRequest): Promise<unknown>;
  /** Lets the thread finish its calls; accepts no further ones. */
  close(): Promise<void>;
}

interface CallsOptions {
  readonly port: { postMessage(message: NumberedRequest): void };
  /** Bound of the thread's work on one call, in milliseconds. The time in the queue does not count. */
  readonly responseTimeoutMs: number;
  /** Called if the thread has not answered in time and must be replaced. */
  readonly onHang: () => void;
  /** Called after every failure. */
  readonly onFailure?: (failure: StoreFailure) => void;
}

interface Pending {
  readonly id: number;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** Calls on a thread over one port: numbered, answered in order, and rejected after a timeout. */
class StoreCalls {
  readonly #options: CallsOptions;
  /**
   * In the order of the calls: the thread works on the first. An array, since a Map with few entries would keep results
   * alive: see `OpenAnswers`.
   */
  #pending: Pending[] = [];
  #watch: NodeJS.Timeout | undefined;
  #nextId = 0;

  constructor(options: CallsOptions) {
    this.#options = options;
  }

  call(request: WorkerRequest): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const id = this.#nextId++;
    this.#pending.push({ id, resolve, reject });
    if (this.#pending.length === 1) this.#watchFirst();
    this.#options.port.postMessage({ id, request });
    return promise;
  }

  receive(message: WorkerAnswer): void {
    const at = this.#pending.findIndex(({ id }) => id === message.id);
    const pending = this.#pending[at];
    if (pending === undefined) return;
    this.#pending.splice(at, 1);
    this.#watchFirst();
    if (message.type === "result") pending.resolve(message.result);
    else {
      this.#options.onFailure?.(message.failure);
      pending.reject(toError(message.failure));
    }
  }

  /** The thread is gone: rejects all calls. */
  fail(cause: string): void {
    clearTimeout(this.#watch);
    for (const { reject } of this.#pending) reject(unavailable(cause));
    this.#pending = [];
  }

  /** Starts the timeout of the first call. */
  #watchFirst(): void {
    clearTimeout(this.#watch);
    const [first] = this.#pending;
    if (first === undefined) return;
    const { responseTimeoutMs, onHang } = this.#options;
    this.#watch = setTimeout(() => {
      // An answer may have arrived while this thread was busy: it is read first.
      setImmediate(() => {
        if (this.#pending[0] === first) onHang();
      });
    }, responseTimeoutMs);
  }
}

/** Bounds of a thread. Milliseconds. */
export interface ThreadLimits {
  /**
   * A call that the thread has worked on for this time is rejected, with all behind it, and the thread is replaced. The
   * time in the queue does not count.
   */
  readonly responseTimeoutMs: number;
  /** First pause before a dead thread is replaced; it doubles with each failure in a row. */
  readonly minRestartDelayMs: number;
  readonly maxRestartDelayMs: number;
}

interface Running {
  readonly worker: Worker;
  readonly calls: StoreCalls;
}

/** A supervised thread: serves calls, and is replaced when it dies. */
export class StoreThread implements StoreCaller {
  readonly #data: WorkerData;
  readonly #limits: ThreadLimits;
  readonly #logger: StoreLogger | undefined;
  readonly #onLongLog: ((files: readonly OpenedFile[]) => void) | undefined;
  readonly #ready = Promise.withResolvers<void>();
  #running: Running | undefined;
  #isReady = false;
  #failuresInARow = 0;
  #restart: NodeJS.Timeout | undefined;
  #closing = false;
  #movedReported = false;

  /** @param onLongLog called with the thread's files after a commit that leaves a long write-ahead log */
  constructor(
    data: WorkerData,
    limits: ThreadLimits,
    logger: StoreLogger | undefined,
    onLongLog?: (files: readonly OpenedFile[]) => void,
  ) {
    this.#data = data;
    this.#limits = limits;
    this.#logger = logger;
    this.#onLongLog = onLongLog;
    this.#start();
  }

  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  call(request: WorkerRequest): Promise<unknown> {
    const running = this.#running;
    if (running === undefined || !this.#isReady)
      return Promise.reject(unavailable("The store's thread is starting again."));
    return running.calls.call(request);
  }

  async close(): Promise<void> {
    const worker = this.#running?.worker;
    this.#closing = true;
    clearTimeout(this.#restart);
    if (worker === undefined) return;
    const exited = new Promise((resolve) => worker.once("exit", resolve));
    if (this.#isReady) await this.call({ call: "close", args: [] }).catch(() => worker.terminate());
    else await worker.terminate();
    await exited;
  }

  #start(): void {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: this.#data,
      name: `store-${this.#data.role}`,
      env: threadEnvironment(),
      // A thread's objects die after each call: a young generation of the usual size only takes memory. A full batch of
      // the writer must fit, or the collector runs repeatedly during it.
      resourceLimits: { maxYoungGenerationSizeMb: this.#data.role === "writer" ? 16 : 4 },
    });
    const calls = new StoreCalls({
      port: worker,
      responseTimeoutMs: this.#limits.responseTimeoutMs,
      onHang: () => this.#fail(worker, "The store did not answer in time."),
      onFailure: (failure) => this.#reportMoved(failure),
    });
    this.#running = { worker, calls };
    let cause = "The store's thread ended.";
    worker.on("message", (message: WorkerMessage) => this.#receive(calls, message));
    worker.on("error", (error: unknown) => {
      cause = error instanceof Error ? error.message : String(error);
    });
    worker.on("exit", () => this.#fail(worker, cause));
  }

  #receive(calls: StoreCalls, message: WorkerMessage): void {
    if (message.type === "ready") {
      this.#isReady = true;
      this.#ready.resolve();
      return;
    }
    if (message.type === "long_log") {
      this.#onLongLog?.(message.files);
      return;
    }
    this.#failuresInARow = 0;
    if (message.type === "result") this.#movedReported = false;
    calls.receive(message);
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
    if (this.#running?.worker !== worker) return; // said already
    const { calls } = this.#running;
    this.#running = undefined;
    this.#isReady = false;
    void worker.terminate();
    calls.fail(cause);
    if (this.#closing) return;
    this.#ready.reject(unavailable(cause));
    const { minRestartDelayMs, maxRestartDelayMs } = this.#limits;
    const delayMs = Math.min(maxRestartDelayMs, minRestartDelayMs * 2 ** this.#failuresInARow);
    this.#failuresInARow += 1;
    this.#logger?.warn({ role: this.#data.role, cause, restartInMs: delayMs }, "a thread of the record store ended");
    this.#restart = setTimeout(() => this.#start(), delayMs);
  }
}

/** A thread that is started on demand: an idle service saves its 10 MiB. */
export class LateThread<Thread extends StoreCaller = StoreCaller> implements StoreCaller {
  readonly #make: () => Thread;
  readonly #meanwhile: StoreCaller | undefined;
  #thread: Thread | undefined;
  #isStarting = false;
  #isClosed = false;

  /** @param meanwhile serves calls while the thread starts; without it calls wait for the thread */
  constructor(make: () => Thread, meanwhile?: StoreCaller) {
    this.#make = make;
    this.#meanwhile = meanwhile;
  }

  /** Whether the thread was started. */
  get isStarted(): boolean {
    return this.#thread !== undefined && !this.#isStarting;
  }

  /** Resolved if the thread was not started: calls are accepted all the same. */
  get ready(): Promise<void> {
    return this.#thread?.ready ?? Promise.resolve();
  }

  /** Returns the thread, and starts it if needed. Does not wait for it. */
  start(): Thread {
    if (this.#thread !== undefined) return this.#thread;
    const thread = this.#make();
    this.#thread = thread;
    this.#isStarting = true;
    const started = () => {
      this.#isStarting = false;
    };
    // If the start fails, the next call reports it.
    thread.ready.then(started, started);
    return thread;
  }

  async call(request: WorkerRequest): Promise<unknown> {
    if (this.#isClosed) throw unavailable("The store is closed.");
    const thread = this.start();
    if (this.#isStarting && this.#meanwhile !== undefined) return this.#meanwhile.call(request);
    await thread.ready.catch(() => {});
    return thread.call(request);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#thread?.close();
  }
}
