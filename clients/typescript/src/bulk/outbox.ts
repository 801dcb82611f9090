/** Unacknowledged items of a stream: bounded, in order, numbered from 0. */
import { Code, ConnectError } from "@connectrpc/connect";
import type { Receipt } from "../../../../gen/platform/sdk/v1/common_pb.ts";

export interface OutboxOptions {
  /** Most unacknowledged items, at least 1. Default 256. */
  readonly maxUnacknowledgedItems?: number;
  /** Most of their bytes on the wire; a single item may always be larger. Default 262,144. */
  readonly maxUnacknowledgedBytes?: number;
}

/** An item with its number. */
export interface Sent<Result> {
  readonly sequence: bigint;
  readonly idempotencyKey: string;
  /**
   * Resolves with the item's result once it is acknowledged. Rejects with a `PlatformError` if the stream is given up.
   */
  readonly result: Promise<Result>;
}

export interface Entry<Item> {
  readonly sequence: bigint;
  readonly item: Item;
}

/** What became of an item: of an event or a registration. */
export interface Settled {
  readonly idempotencyKey: string;
  readonly ingestion?: Recorded | undefined;
  readonly registration?: Recorded | undefined;
}

interface Recorded {
  readonly receipt?: Receipt | undefined;
}

export interface Acknowledgement<Result> {
  readonly sequence: bigint;
  readonly result?: Result | undefined;
}

interface Pending<Item, Result> extends Entry<Item> {
  readonly sizeBytes: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

interface Waiting {
  readonly sizeBytes: number;
  readonly take: () => void;
  readonly reject: (error: unknown) => void;
}

/** How many of the latest records may answer no other item: as many as a bulk call has items. */
const maxOwners = 1_000;

export class Outbox<Item extends { readonly idempotencyKey: string }, Result extends Settled> {
  readonly #maxItems: number;
  readonly #maxBytes: number;
  readonly #pending: Pending<Item, Result>[] = [];
  readonly #waiting: Waiting[] = [];
  /** Places of the latest records in their logs, and the key of the item that each answers. */
  readonly #owners = new Map<string, string>();
  #bytes = 0;
  #nextSequence = 0n;
  /** Pending items that were sent since the last `rewind`. */
  #handedOut = 0;

  constructor({ maxUnacknowledgedItems = 256, maxUnacknowledgedBytes = 256 * 1024 }: OutboxOptions) {
    if (!(maxUnacknowledgedItems >= 1)) throw new RangeError("maxUnacknowledgedItems is at least 1");
    this.#maxItems = maxUnacknowledgedItems;
    this.#maxBytes = maxUnacknowledgedBytes;
  }

  get isEmpty(): boolean {
    return this.#pending.length === 0;
  }

  get isFull(): boolean {
    return this.#waiting.length > 0;
  }

  /** Unacknowledged items in order, without those that wait for room. */
  left(): Item[] {
    return this.#pending.map(({ item }) => item);
  }

  /** Resolves once there is room for the item, which then gets its number, in the order of the calls. */
  add(item: Item, sizeBytes: number): Promise<Sent<Result>> {
    return new Promise((resolve, reject) => {
      const take = () => resolve(this.#take(item, sizeBytes));
      this.#waiting.push({ sizeBytes, take, reject });
      this.#takeWaiting();
    });
  }

  /** Restarts with the first unacknowledged item. */
  rewind(): void {
    this.#handedOut = 0;
  }

  next(): Entry<Item> | undefined {
    const entry = this.#pending[this.#handedOut];
    if (entry !== undefined) this.#handedOut += 1;
    return entry;
  }

  /**
   * Settles the items of one message, which must be the first that were sent.
   *
   * @throws ConnectError if any is unexpected; then none is settled
   */
  acknowledge(items: readonly Acknowledgement<Result>[]): void {
    const settled = items.map(({ sequence, result }, i) => {
      const entry = i < this.#handedOut ? this.#pending[i] : undefined;
      if (entry?.sequence !== sequence) throw wrong(`item ${sequence} was not to be acknowledged now`);
      if (result === undefined || result.idempotencyKey !== entry.item.idempotencyKey)
        throw wrong(`item ${sequence} was sent under another key`);
      if (!this.#ownsRecord(result)) throw wrong(`the record of item ${sequence} is that of another item`);
      return () => entry.resolve(result);
    });
    for (const { sizeBytes } of this.#pending.splice(0, settled.length)) this.#bytes -= sizeBytes;
    this.#handedOut -= settled.length;
    for (const settle of settled) settle();
    this.#takeWaiting();
  }

  /** Rejects everything that waits. Remaining items stay in the list. */
  fail(error: unknown): void {
    for (const { reject } of [...this.#waiting.splice(0), ...this.#pending]) reject(error);
  }

  /** Items may ask the same, so that a record does not tell whose it is. Those with one key have one record. */
  #ownsRecord({ idempotencyKey, ingestion, registration }: Result): boolean {
    const { receipt } = ingestion ?? registration ?? {};
    if (receipt === undefined) return true;
    const place = `${receipt.logOrigin} ${receipt.leafIndex}`;
    const owner = this.#owners.get(place);
    if (owner !== undefined) return owner === idempotencyKey;
    this.#owners.set(place, idempotencyKey);
    const [oldest = ""] = this.#owners.keys();
    if (this.#owners.size > maxOwners) this.#owners.delete(oldest);
    return true;
  }

  #take(item: Item, sizeBytes: number): Sent<Result> {
    const sequence = this.#nextSequence++;
    const result = new Promise<Result>((resolve, reject) => {
      this.#pending.push({ sequence, item, sizeBytes, resolve, reject });
    });
    // If the caller ignores it, `close` reports the failure.
    result.catch(() => {});
    this.#bytes += sizeBytes;
    return { sequence, idempotencyKey: item.idempotencyKey, result };
  }

  #takeWaiting(): void {
    for (let first = this.#waiting[0]; first !== undefined && this.#hasRoom(first); first = this.#waiting[0]) {
      this.#waiting.shift();
      first.take();
    }
  }

  #hasRoom({ sizeBytes }: Waiting): boolean {
    const { length } = this.#pending;
    return length === 0 || (length < this.#maxItems && this.#bytes + sizeBytes <= this.#maxBytes);
  }
}

function wrong(problem: string): ConnectError {
  return new ConnectError(`the service acknowledged what it should not: ${problem}`, Code.Internal);
}
