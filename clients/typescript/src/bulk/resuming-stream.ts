/**
 * One stream for the user, several to the service: after a disconnect a new one begins with the unacknowledged items.
 */
import {
  create,
  type DescMessage,
  type DescMethodBiDiStreaming,
  type Message,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { Code, ConnectError, createContextValues, type Transport } from "@connectrpc/connect";
import { type Renewal, renewalsKey } from "../interceptors.ts";
import { attemptError, PlatformError, problemOf } from "../problem.ts";
import { delayAfter, type RetryOptions, streamRetryKey, systemPause } from "../retry.ts";
import { type Acknowledgement, Outbox, type OutboxOptions, type Sent, type Settled } from "./outbox.ts";

export interface StreamOptions extends OutboxOptions {
  /** Sent with each stream. */
  readonly headers?: ConstructorParameters<typeof Headers>[0];
  /** Gives the stream up, as `abort` does. */
  readonly signal?: AbortSignal;
}

/** A stream of events or registrations that continues after a disconnect. */
export interface ResumingStream<Payload extends DescMessage, Item, Result> {
  /**
   * Sends one item. Resolves once there is room for it, with the promise of its result; a refused item has a result
   * too. Await this before the next call, and not the result: this is the backpressure.
   *
   * @param idempotencyKey 1 to 128 visible characters. Default: a random UUID.
   * @throws PlatformError if the stream is given up, Error after `close`
   */
  send(payload: MessageInitShape<Payload>, idempotencyKey?: string): Promise<Sent<Result>>;
  /** Unacknowledged items in order, with their keys, for a program that stops to save. */
  unacknowledged(): Item[];
  /** Accepts no more items; resolves once all are acknowledged. Rejects with the `PlatformError` of a failed stream. */
  close(): Promise<void>;
  /** Gives the stream up at once; everything that waits rejects. */
  abort(reason?: unknown): void;
}

interface Keyed extends Message {
  readonly idempotencyKey: string;
}

/** What distinguishes the two streams. */
export interface StreamKind<Payload extends DescMessage, Item extends Keyed> {
  readonly method: DescMethodBiDiStreaming;
  itemOf(idempotencyKey: string, payload: MessageInitShape<Payload>): Item;
}

/** Opens the stream. The first item opens the first connection. */
export function openStream<Payload extends DescMessage, Item extends Keyed, Result extends Settled>(
  transport: Transport,
  { method, itemOf }: StreamKind<Payload, Item>,
  options: StreamOptions = {},
): ResumingStream<Payload, Item, Result> {
  const outbox = new Outbox<Item, Result>(options);
  const connection = new Resumption(transport, method, outbox, options);
  return {
    async send(payload, idempotencyKey = crypto.randomUUID()) {
      const item = itemOf(idempotencyKey, payload);
      const sizeBytes = toBinary(method.input, create(method.input, { item } as never)).length;
      connection.requireOpen();
      const sent = outbox.add(item, sizeBytes);
      connection.wake();
      return sent;
    },
    unacknowledged: () => outbox.left(),
    close: () => connection.close(),
    abort: (reason) => connection.abort(reason),
  };
}

/** Keeps a stream open while items are unacknowledged, and an open one for as long as it lasts. */
class Resumption<Item extends Keyed, Result extends Settled> {
  readonly #transport: Transport;
  readonly #method: DescMethodBiDiStreaming;
  readonly #outbox: Outbox<Item, Result>;
  readonly #headers: StreamOptions["headers"];
  readonly #stop = new AbortController();
  /** Renewals since the last acknowledgement. */
  readonly #renewals = new Set<Renewal>();
  #failures = 0;
  #retry: RetryOptions | undefined;
  #running: Promise<void> | undefined;
  #isClosing = false;
  #failure: PlatformError | undefined;
  #ring = () => {};

  constructor(
    transport: Transport,
    method: DescMethodBiDiStreaming,
    outbox: Outbox<Item, Result>,
    { headers, signal }: StreamOptions,
  ) {
    this.#transport = transport;
    this.#method = method;
    this.#outbox = outbox;
    this.#headers = headers;
    if (signal?.aborted === true) this.abort(signal.reason);
    else signal?.addEventListener("abort", () => this.abort(signal.reason), { once: true });
  }

  requireOpen(): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#isClosing) throw new Error("the stream is closed");
  }

  /** Called when there is something to send or to await. */
  wake(): void {
    if (!this.#outbox.isEmpty && this.#failure === undefined)
      this.#running ??= this.#run().catch((error) => this.#fail(error));
    this.#ring();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.wake();
    await this.#running;
    if (this.#failure !== undefined) throw this.#failure;
  }

  abort(reason?: unknown): void {
    if (this.#failure !== undefined || (this.#isClosing && this.#running === undefined)) return;
    const error = ConnectError.from(reason ?? "the program gave the stream up", Code.Canceled);
    this.#fail(error);
    this.#stop.abort(error);
  }

  #fail(error: unknown): void {
    this.#failure = PlatformError.from(error);
    this.#outbox.fail(this.#failure);
    this.#ring();
  }

  /** Opens streams until one ends with nothing left. */
  async #run(): Promise<void> {
    while (!this.#outbox.isEmpty && this.#failure === undefined) {
      const renewals = this.#renewals.size;
      this.#failures += 1;
      const error = await this.#attempt();
      if (this.#failure !== undefined || this.#outbox.isEmpty || this.#renewals.size > renewals) continue;
      const { attempts = 4, pause = systemPause, onRetry } = this.#retry ?? { attempts: 1 };
      const delayMs = this.#failures < attempts || this.#failures === 0 ? this.#delayAfter(error) : undefined;
      if (delayMs === undefined) {
        this.#fail(error);
        continue;
      }
      onRetry?.(problemOf(error), delayMs);
      // Rejects if the stream is given up.
      await pause(delayMs, this.#stop.signal).catch(() => {});
    }
    this.#running = undefined;
  }

  #delayAfter(error: ConnectError): number | undefined {
    // The service limits idle time, not the length of a stream.
    const isIdle = error.code === Code.DeadlineExceeded;
    const cut = isIdle ? new ConnectError(error.rawMessage, Code.Unavailable) : error;
    return delayAfter(cut, Math.max(1, this.#failures), this.#retry ?? {});
  }

  /** One stream, until it ends; returns the reason. */
  async #attempt(): Promise<ConnectError> {
    this.#outbox.rewind();
    const ended = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, ended.signal]);
    const values = createContextValues().set(renewalsKey, this.#renewals);
    try {
      const requests = this.#requests(ended.signal);
      const response = await this.#transport.stream(this.#method, signal, 0, this.#headers, requests, values);
      for await (const message of response.message) {
        const { items } = message as unknown as { readonly items: readonly Acknowledgement<Result>[] };
        this.#outbox.acknowledge(items);
        if (items.length === 0) continue;
        this.#failures = 0;
        this.#renewals.clear();
        this.#ring();
      }
      return new ConnectError("the service ended the stream", Code.Unavailable);
    } catch (thrown) {
      return attemptError(thrown, this.#stop.signal);
    } finally {
      this.#retry = values.get(streamRetryKey);
      ended.abort();
      this.#ring();
    }
  }

  /** Yields items to send as they arrive. */
  async *#requests(ended: AbortSignal): AsyncGenerator<MessageInitShape<DescMessage>> {
    while (!ended.aborted && this.#failure === undefined) {
      const entry = this.#outbox.next();
      if (entry !== undefined) yield create(this.#method.input, entry as never) as MessageShape<DescMessage>;
      else if (this.#isClosing && !this.#outbox.isFull) return;
      else
        await new Promise<void>((resolve) => {
          this.#ring = resolve;
        });
    }
  }
}
