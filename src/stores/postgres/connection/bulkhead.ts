/**
 * A bulkhead between slow work and the connection pool. Work of a tenant whose head is locked, or whose node does not
 * answer, may hold some of the connections, never all. Beyond that bound it returns its connection and queues.
 */
import { systemTimers } from "../../../base/timers.ts";
import { TransactionError } from "./errors.ts";

/** Milliseconds after which work counts as slow: many times what a transaction takes. */
export const slowAfterMs = 250;
/** Bound of the remembered slow keys; the oldest is evicted. */
const maxSlowKeys = 4_096;

export class Bulkhead {
  readonly #maxSlow: number;
  readonly #onStuck: (key: string) => void;
  /** Keys whose last work was slow, oldest first. */
  readonly #slow = new Set<string>();
  readonly #stuck = new Set<string>();
  /** Functions that give a slot. */
  readonly #waiting: (() => void)[] = [];
  #slotsTaken = 0;

  /** @param onStuck called once for a key whose work was cancelled or timed out, until work of that key succeeds again */
  constructor(maxSlow: number, onStuck: (key: string) => void) {
    this.#maxSlow = maxSlow;
    this.#onStuck = onStuck;
  }

  /** Keys whose work is stuck, the longest first. */
  get stuck(): readonly string[] {
    return [...this.#stuck];
  }

  /** Whether the last work of this key was slow. */
  isSlow(key: string): boolean {
    return this.#slow.has(key);
  }

  /**
   * Runs work with a connection; keys that were slow before wait for a slot first. `onOver` is called, at most once, if
   * the work has become slow and no slot is free: then it should end. Work without a key is of many tenants: it needs
   * no slot, and its caller bounds it. Rejects with `TransactionError` if no slot comes free in time, and as `connect`
   * and the work do.
   */
  async run<Connection, Result>(
    key: string | undefined,
    remainingMs: () => number,
    connect: () => Promise<Connection>,
    work: (connection: Connection, onOver: (end: () => void) => void) => Promise<Result>,
  ): Promise<Result> {
    if (key === undefined) return work(await connect(), () => {});
    const permit = { holdsSlot: this.#slow.has(key) };
    if (permit.holdsSlot) await this.#takeSlot(key, remainingMs());
    let cancel = () => {};
    try {
      const connection = await connect();
      let end = () => {};
      let isSlow = false;
      cancel = systemTimers.after(slowAfterMs, () => {
        isSlow = true;
        this.#noteSlow(key);
        if (permit.holdsSlot) return;
        if (this.#slotsTaken >= this.#maxSlow) return end();
        this.#slotsTaken += 1;
        permit.holdsSlot = true;
      });
      const result = await work(connection, (onOver) => {
        end = onOver;
      });
      if (!isSlow) this.#noteWell(key);
      return result;
    } finally {
      cancel();
      if (permit.holdsSlot) this.#freeSlot();
    }
  }

  /** Notes that work of this key was cancelled or timed out. */
  noteStuck(key: string | undefined): void {
    if (key === undefined) return;
    this.#noteSlow(key);
    if (this.#stuck.has(key)) return;
    this.#stuck.add(key);
    this.#onStuck(key);
  }

  #noteSlow(key: string): void {
    this.#slow.add(key);
    const [oldest] = this.#slow;
    if (this.#slow.size > maxSlowKeys && oldest !== undefined) this.#noteWell(oldest);
  }

  #noteWell(key: string): void {
    this.#slow.delete(key);
    this.#stuck.delete(key);
  }

  async #takeSlot(key: string, remainingMs: number): Promise<void> {
    if (this.#slotsTaken < this.#maxSlow) {
      this.#slotsTaken += 1;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    const cancel = systemTimers.after(remainingMs, () => {
      this.#waiting.splice(this.#waiting.indexOf(resolve), 1);
      this.noteStuck(key);
      reject(new TransactionError("Too much slow work was before it."));
    });
    await promise.finally(cancel);
  }

  /** Gives the slot to the work that has waited longest. */
  #freeSlot(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#slotsTaken -= 1;
    else next();
  }
}
