/** A thread of the store that is started when it is wanted: a service at rest does without its 10 MiB. */
import { unavailable } from "../errors.ts";
import type { StoreCaller } from "./calls.ts";
import type { WorkerRequest } from "./protocol.ts";

export class LateThread<Thread extends StoreCaller = StoreCaller> implements StoreCaller {
  readonly #make: () => Thread;
  readonly #meanwhile: StoreCaller | undefined;
  #thread: Thread | undefined;
  #isStarting = false;
  #isClosed = false;

  /** @param meanwhile what is asked while the thread starts; without it questions wait for the thread */
  constructor(make: () => Thread, meanwhile?: StoreCaller) {
    this.#make = make;
    this.#meanwhile = meanwhile;
  }

  /** Whether the thread is there, or ought to be. */
  get isStarted(): boolean {
    return this.#thread !== undefined && !this.#isStarting;
  }

  /** Resolved where it was not started: it can be asked all the same. */
  get ready(): Promise<void> {
    return this.#thread?.ready ?? Promise.resolve();
  }

  /** The thread, which is started where it was not. Does not wait for it. */
  start(): Thread {
    if (this.#thread !== undefined) return this.#thread;
    const thread = this.#make();
    this.#thread = thread;
    this.#isStarting = true;
    const started = () => {
      this.#isStarting = false;
    };
    // Where it does not come to that, whoever asks it hears of it.
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
