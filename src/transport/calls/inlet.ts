/**
 * Reads the messages of one stream ahead of their processing, within a window. When the window is full no more is read,
 * and flow control of the connection stops the sender.
 */
import type { ServiceError } from "../../base/errors.ts";

export interface Feed {
  readonly inlet: Inlet<unknown>;
  /** Aborted when the server begins to stop. */
  readonly stopping: AbortSignal;
  /** Throws the refusal of a stream if its caller's credentials are no longer accepted. */
  readonly stillAllowed: () => Promise<void>;
}

/** Most messages that are read and not settled, and their most bytes. One message alone may have more bytes. */
const maxItems = 256;
export const windowBytes = 256 * 1024;

/** Milliseconds of waiting for the next items, and the error to throw after them. */
interface TimeLimit {
  readonly afterMs: number;
  readonly refusal: () => ServiceError;
}

export class Inlet<Item> {
  #readBytes = 0;
  #settledBytes = 0;
  #items: Item[] = [];
  /** Value of `#readBytes` after the last of `#items`. */
  #itemBytes = 0;
  /** Value of `#readBytes` after the last item that was taken and is not settled; undefined if there is none. */
  #takenBytes: number | undefined;
  /** Set when the stream has ended; with the error, if it failed. */
  #end: { readonly error?: unknown } | undefined;
  #onRoom: (() => void)[] = [];
  #onItem = () => {};

  /** Passes the body on, and asks for the next piece when there is room. */
  async *body(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      this.#readBytes += piece.byteLength;
      yield piece;
      while (this.#isFull) await this.#room();
    }
  }

  /** Reads the messages of the body. Called once; does not reject. */
  async read(messages: AsyncIterable<Item>): Promise<void> {
    try {
      for await (const item of messages) {
        this.#items.push(item);
        this.#itemBytes = this.#readBytes;
        this.#onItem();
        while (this.#items.length >= maxItems) await this.#room();
      }
      this.#end = {};
    } catch (error) {
      this.#end = { error };
    }
    this.#onItem();
  }

  /**
   * Settles the items taken before, and returns all that have arrived, waiting for at least one. Undefined at the end
   * of the stream, or if the server begins to stop. Throws the stream's error, or the refusal of the limit.
   *
   * @param stopping ends the wait
   */
  async take(limit: TimeLimit, stopping: AbortSignal): Promise<readonly Item[] | undefined> {
    this.#settle();
    if (this.#items.length === 0 && this.#end === undefined) await this.#wait(limit, stopping);
    // Lets items that arrive together share a commit.
    await new Promise(setImmediate);
    const taken = this.#items;
    if (taken.length === 0) {
      if (this.#end?.error !== undefined) throw this.#end.error;
      return undefined;
    }
    this.#items = [];
    this.#takenBytes = this.#itemBytes;
    this.#wake();
    return taken;
  }

  get #isFull(): boolean {
    const isBusy = this.#takenBytes !== undefined || this.#items.length > 0;
    return isBusy && this.#readBytes - this.#settledBytes > windowBytes;
  }

  #settle(): void {
    this.#settledBytes = this.#takenBytes ?? this.#settledBytes;
    this.#takenBytes = undefined;
    this.#wake();
  }

  #room(): Promise<void> {
    return new Promise((resolve) => void this.#onRoom.push(resolve));
  }

  #wake(): void {
    for (const resolve of this.#onRoom.splice(0)) resolve();
  }

  #wait({ afterMs, refusal }: TimeLimit, stopping: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      // Node fires timers with longer delays at once.
      const timer = setTimeout(() => over(() => reject(refusal())), Math.min(afterMs, 2 ** 31 - 1));
      const over = (settle: () => void) => {
        clearTimeout(timer);
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
