/** A supervised worker thread of the store: calls go to it, and it is replaced when it dies. */
import { Worker } from "node:worker_threads";
import { threadEnvironment } from "../../base/thread-environment.ts";
import type { StoreLogger } from "../backend.ts";
import { unavailable } from "../errors.ts";
import { type OnPart, type StoreCaller, StoreCalls } from "./calls.ts";
import type { StoreFailure } from "./errors.ts";
import type { WorkerData, WorkerMessage, WorkerRequest } from "./protocol.ts";

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

/** A thread that runs, and the calls on it. */
interface Running {
  readonly worker: Worker;
  readonly calls: StoreCalls;
}

export class StoreThread implements StoreCaller {
  readonly #data: WorkerData;
  readonly #limits: ThreadLimits;
  readonly #logger: StoreLogger | undefined;
  readonly #ready = Promise.withResolvers<void>();
  #running: Running | undefined;
  #isReady = false;
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

  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  call(request: WorkerRequest, onPart?: OnPart): Promise<unknown> {
    const running = this.#running;
    if (running === undefined || !this.#isReady)
      return Promise.reject(unavailable("The store's thread is starting again."));
    return running.calls.call(request, onPart);
  }

  async close(): Promise<void> {
    const worker = this.#running?.worker;
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
      // What a thread makes is gone after each call: a young generation of the usual size only takes memory. What the
      // writer makes of a full batch must fit, or it is collected half-way, again and again.
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
    // A part says nothing of the commit, at which a thread may hang or end time after time.
    if (message.type !== "part") this.#failuresInARow = 0;
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

  /** The worker is no more, or is to be no more: whoever waits for it is refused, and another is started. */
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
