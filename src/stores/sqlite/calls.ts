/** Calls on a thread of the store over one port: numbered, answered in their order, and given up when nothing comes. */
import { unavailable } from "../errors.ts";
import { type StoreFailure, toError } from "./errors.ts";
import type { AppendPart, NumberedRequest, WorkerAnswer, WorkerPart, WorkerRequest } from "./protocol.ts";

/** Told of what a call that has not ended yet will answer. Nothing of it holds before the call has succeeded. */
export type OnPart = (part: AppendPart) => void;

/** A thread of the store, as those see it who ask it. */
export interface StoreCaller {
  /** Resolves when the thread serves for the first time; rejects where it does not come to that. */
  readonly ready: Promise<void>;
  /** Rejects with `store_unavailable` when the thread is down, dies, or takes too long; else as `toError` says. */
  call(request: WorkerRequest, onPart?: OnPart): Promise<unknown>;
  /** Lets the thread finish what it was given; it is asked nothing more. */
  close(): Promise<void>;
}

export interface CallsOptions {
  readonly port: { postMessage(message: NumberedRequest): void };
  /** How long the thread may work on one call, in milliseconds. The time that a call waits for others does not count. */
  readonly responseTimeoutMs: number;
  /** Told when the thread has not answered in time: it is to be replaced. */
  readonly onHang: () => void;
  /** Told of every failure. */
  readonly onFailure?: (failure: StoreFailure) => void;
}

interface Pending {
  readonly onPart: OnPart | undefined;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

export class StoreCalls {
  readonly #options: CallsOptions;
  /** In the order of their calls, in which the thread answers: of ours it works on the first. */
  readonly #pending = new Map<number, Pending>();
  #watch: NodeJS.Timeout | undefined;
  #nextId = 0;

  constructor(options: CallsOptions) {
    this.#options = options;
  }

  call(request: WorkerRequest, onPart?: OnPart): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const id = this.#nextId++;
    this.#pending.set(id, { resolve, reject, onPart });
    if (this.#pending.size === 1) this.#watchFirst();
    this.#options.port.postMessage({ id, request });
    return promise;
  }

  receive(message: WorkerAnswer | WorkerPart): void {
    const pending = this.#pending.get(message.id);
    if (pending === undefined) return;
    if (message.type === "part") {
      pending.onPart?.(message.part);
      return;
    }
    this.#pending.delete(message.id);
    this.#watchFirst();
    if (message.type === "result") pending.resolve(message.result);
    else {
      this.#options.onFailure?.(message.failure);
      pending.reject(toError(message.failure));
    }
  }

  /** The thread is no more: whoever waits for it is refused. */
  fail(cause: string): void {
    clearTimeout(this.#watch);
    for (const { reject } of this.#pending.values()) reject(unavailable(cause));
    this.#pending.clear();
  }

  /** Gives the thread its time for the first call. */
  #watchFirst(): void {
    clearTimeout(this.#watch);
    const [first] = this.#pending.keys();
    if (first === undefined) return;
    const { responseTimeoutMs, onHang } = this.#options;
    this.#watch = setTimeout(() => {
      // An answer may have come while this thread was busy itself: it is read first.
      setImmediate(() => {
        if (this.#pending.has(first)) onHang();
      });
    }, responseTimeoutMs);
  }
}
