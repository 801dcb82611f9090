/**
 * What comes in on one stream. It is read ahead while what came before is worked on, and no further than there is room:
 * then nothing more is taken from the connection, whose own flow control holds the sender back.
 */
import { createContextKey } from "@connectrpc/connect";
import type { ServiceError } from "../../base/errors.ts";

/** Where the implementation of a stream finds what it reads. */
export const kInlet = createContextKey<Inlet<unknown> | undefined>(undefined, { description: "inlet" });
/** Aborted when the server begins to stop. */
export const kStopping = createContextKey<AbortSignal>(new AbortController().signal, { description: "stopping" });

/** Throws the refusal of a stream whose caller's credentials count no more. */
export const kStillAllowed = createContextKey<() => Promise<void>>(async () => {}, { description: "still allowed" });

/** Bounds of what is read and not settled yet. */
export interface InletLimits {
  readonly maxItems: number;
  /** Passed by one message at most. */
  readonly maxBytes: number;
}

/** How long to wait for the next items. */
export interface Patience {
  /** Milliseconds, and what is thrown once they have passed. */
  readonly limits: readonly { readonly afterMs: number; readonly refusal: () => ServiceError }[];
  /** Once it is aborted nothing more is waited for. */
  readonly stopping: AbortSignal;
}

export class Inlet<Item> {
  readonly #limits: InletLimits;
  #readBytes = 0;
  #settledBytes = 0;
  /** Items that were read, each with the bytes that were read by then. */
  #items: { readonly item: Item; readonly readBytes: number }[] = [];
  #taken = 0;
  #takenBytes = 0;
  /** How the stream ended: with an error, or well. */
  #end: { readonly error?: unknown } | undefined;
  #onRoom: (() => void)[] = [];
  #onItem = () => {};

  constructor(limits: InletLimits) {
    this.#limits = limits;
  }

  /** The body, of which the next piece is asked for when there is room. */
  async *body(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      this.#readBytes += piece.byteLength;
      yield piece;
      while (this.#isFull) await this.#room();
    }
  }

  /** Reads the messages of that body. Called once; does not reject. */
  async read(messages: AsyncIterable<Item>): Promise<void> {
    try {
      for await (const item of messages) {
        this.#items.push({ item, readBytes: this.#readBytes });
        this.#onItem();
        while (this.#items.length >= this.#limits.maxItems) await this.#room();
      }
      this.#end = {};
    } catch (error) {
      this.#end = { error };
    }
    this.#onItem();
  }

  /**
   * All that is there, once something is. Settles what was taken before. Undefined where nothing more comes; throws what
   * ended the stream, or the refusal of whose limit has passed.
   */
  async take(patience: Patience): Promise<readonly Item[] | undefined> {
    this.#settle();
    if (this.#items.length === 0 && this.#end === undefined) await this.#wait(patience);
    // What arrived together shares a commit.
    await new Promise(setImmediate);
    const taken = this.#items;
    if (taken.length === 0) {
      if (this.#end?.error !== undefined) throw this.#end.error;
      return undefined;
    }
    this.#items = [];
    this.#taken = taken.length;
    this.#takenBytes = taken.at(-1)?.readBytes ?? 0;
    this.#wake();
    return taken.map(({ item }) => item);
  }

  get #isFull(): boolean {
    const isBusy = this.#taken > 0 || this.#items.length > 0;
    return isBusy && this.#readBytes - this.#settledBytes > this.#limits.maxBytes;
  }

  #settle(): void {
    if (this.#taken > 0) this.#settledBytes = this.#takenBytes;
    this.#taken = 0;
    this.#wake();
  }

  #room(): Promise<void> {
    return new Promise((resolve) => void this.#onRoom.push(resolve));
  }

  #wake(): void {
    for (const resolve of this.#onRoom.splice(0)) resolve();
  }

  #wait({ limits, stopping }: Patience): Promise<void> {
    return new Promise((resolve, reject) => {
      const timers = limits.map(({ afterMs, refusal }) =>
        // Longer delays than that fire at once.
        setTimeout(() => over(() => reject(refusal())), Math.min(Math.max(0, afterMs), 2 ** 31 - 1)),
      );
      const over = (settle: () => void) => {
        for (const timer of timers) clearTimeout(timer);
        stopping.removeEventListener("abort", onStop);
        this.#onItem = () => {};
        settle();
      };
      const onStop = () => over(resolve);
      this.#onItem = () => over(resolve);
      stopping.addEventListener("abort", onStop, { once: true });
      if (stopping.aborted) onStop();
    });
  }
}
