/** A thread of the store, as another thread of the process calls it that has not started it. */
import type { MessagePort } from "node:worker_threads";
import { unavailable } from "../errors.ts";
import { type OnPart, type StoreCaller, StoreCalls } from "./calls.ts";
import type { StoreFailure } from "./errors.ts";
import type { WorkerAnswer, WorkerPart, WorkerRequest } from "./protocol.ts";

/** What whoever supervises the store's thread tells its guests. */
export type HostMessage =
  /** The thread serves, on this port; `answered` counts what it has answered. */
  | { readonly port: MessagePort; readonly answered: Int32Array; readonly threadId: number }
  /** It is no more, for this cause. */
  | { readonly ended: string };

/** What a guest tells in return. */
export type GuestMessage =
  /** The thread with this id has not answered in time. */
  | { readonly hangs: number }
  /** A call failed in a way that an operator is told of. */
  | { readonly failure: StoreFailure };

export class GuestThread implements StoreCaller {
  readonly #host: MessagePort;
  readonly #responseTimeoutMs: number;
  readonly #ready = Promise.withResolvers<void>();
  #port: MessagePort | undefined;
  #calls: StoreCalls | undefined;

  /** @param host as `StoreThread.share` gives it */
  constructor(host: MessagePort, responseTimeoutMs: number) {
    this.#host = host;
    this.#responseTimeoutMs = responseTimeoutMs;
    host.on("message", (message: HostMessage) => {
      if ("ended" in message) this.#leave(message.ended);
      else this.#enter(message);
    });
    host.once("close", () => {
      this.#leave("The store is closed.");
      this.#ready.reject(unavailable("The store is closed."));
    });
    // A guest that nobody waits for has nobody to tell.
    this.#ready.promise.catch(() => {});
  }

  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  call(request: WorkerRequest, onPart?: OnPart): Promise<unknown> {
    return this.#calls?.call(request, onPart) ?? Promise.reject(unavailable("The store's thread is starting again."));
  }

  async close(): Promise<void> {
    await this.#calls?.idle();
    this.#port?.close();
    this.#host.close();
  }

  #enter({ port, answered, threadId }: Extract<HostMessage, { readonly port: MessagePort }>): void {
    this.#leave("The store's thread ended.");
    const calls = new StoreCalls({
      port,
      responseTimeoutMs: this.#responseTimeoutMs,
      answered,
      onHang: () => this.#host.postMessage({ hangs: threadId } satisfies GuestMessage),
      onFailure: (failure) => {
        if (failure.kind === "moved") this.#host.postMessage({ failure } satisfies GuestMessage);
      },
    });
    port.on("message", (message: WorkerAnswer | WorkerPart) => calls.receive(message));
    this.#port = port;
    this.#calls = calls;
    this.#ready.resolve();
  }

  #leave(cause: string): void {
    this.#port?.close();
    this.#calls?.fail(cause);
    this.#port = undefined;
    this.#calls = undefined;
  }
}
