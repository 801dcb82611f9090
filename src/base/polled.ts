/** A source, such as files, that is polled for changes. */
import { isDeepStrictEqual } from "node:util";
import type { Timers } from "./timers.ts";

interface PolledOptions<Reading> {
  /** The reading that is applied already. */
  readonly known: Reading;
  readonly read: () => Promise<Reading>;
  /** Applies a reading that differs from the last one. If it rejects, the next poll tries again. */
  readonly apply: (reading: Reading) => Promise<void> | void;
  /** Called for an error of `read` or `apply` that lasts until the next poll, once for each message. Must not throw. */
  readonly onFailure: (error: Error) => void;
  /** Called when a reported failure is over. Must not throw. */
  readonly onRecovered?: () => void;
  readonly timers: Timers;
  readonly pollMs: number;
  /** Time after which a source that changed is read again. */
  readonly settleMs: number;
}

/**
 * Reads a source at intervals and applies each change. File system notifications are not enough: network volumes send
 * none, they are lost when a folder is replaced by a link (which is how orchestrators mount files), and they never tell
 * whether a change is complete. So a change is applied when it was read the same twice in a row.
 */
export class Polled<Reading> {
  readonly #options: PolledOptions<Reading>;
  #seen: Reading | Error;
  #applied: Reading | Error;
  /** The reading that failed last, and the message that was reported. */
  #failed: Reading | Error | undefined;
  #reported: string | undefined;
  #turn: Promise<number> = Promise.resolve(0);
  #cancel = () => {};
  #stopped = false;

  constructor(options: PolledOptions<Reading>) {
    this.#options = options;
    this.#seen = options.known;
    this.#applied = options.known;
  }

  /** Whether a failure is reported that is not over. */
  get isFailing(): boolean {
    return this.#reported !== undefined;
  }

  start(): void {
    this.#pollIn(this.#options.pollMs);
  }

  /** Reads the source and applies a change now, without a second equal reading. Does not reject. */
  async reload(): Promise<void> {
    await this.#poll(true);
  }

  /** Resolves when no poll is in progress. Idempotent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel();
    await this.#turn;
  }

  #pollIn(delayMs: number): void {
    if (this.#stopped) return;
    this.#cancel = this.#options.timers.after(delayMs, () => {
      void this.#poll(false).then((nextMs) => this.#pollIn(nextMs));
    });
  }

  /** One poll at a time. Resolves with the time until the next. */
  #poll(isAtOnce: boolean): Promise<number> {
    this.#turn = this.#turn.then(() => this.#attempt(isAtOnce));
    return this.#turn;
  }

  async #attempt(isAtOnce: boolean): Promise<number> {
    const { read, apply, pollMs, settleMs } = this.#options;
    const found = this.#stopped ? this.#seen : await read().catch(asError);
    const isNew = !isDeepStrictEqual(found, this.#seen);
    // Keeps one of equal readings, which may be as large as all policies.
    if (isNew) this.#seen = found;
    if (this.#stopped || (isNew && !isAtOnce)) return settleMs;
    const reading = this.#seen;
    try {
      if (reading instanceof Error) throw reading;
      if (!isDeepStrictEqual(reading, this.#applied)) await apply(reading);
      this.#applied = reading;
      this.#recover();
    } catch (thrown) {
      this.#fail(reading, asError(thrown), isAtOnce);
    }
    return pollMs;
  }

  #fail(reading: Reading | Error, error: Error, isAtOnce: boolean): void {
    const lasts = isAtOnce || this.#failed === reading;
    this.#failed = reading;
    if (!lasts || error.message === this.#reported) return;
    this.#reported = error.message;
    this.#options.onFailure(error);
  }

  #recover(): void {
    const wasFailing = this.isFailing;
    this.#failed = undefined;
    this.#reported = undefined;
    if (wasFailing) this.#options.onRecovered?.();
  }
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
