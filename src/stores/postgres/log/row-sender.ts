/** Sends tenants' rows while the rows of others are made. */
import type { Clock } from "../../../base/clock.ts";
import type { Transaction } from "../../sql/queries.ts";
import { ConflictError } from "../connection/errors.ts";
import { type OwnRows, writeOfMany } from "./shared-statements.ts";

/** Records sent at once, so that the server writes them while others are sealed. */
const recordsAtOnce = 64;

export class RowSender {
  readonly #queries: Transaction;
  readonly #clock: Clock;
  readonly #sent: Promise<void>[] = [];
  #waiting: OwnRows[] = [];
  #records = 0;

  constructor(queries: Transaction, clock: Clock) {
    this.#queries = queries;
    this.#clock = clock;
  }

  add(rows: OwnRows): void {
    // Before the addition: the last part is sent with the other tables.
    if (this.#records >= recordsAtOnce) this.#send();
    this.#waiting.push(rows);
    this.#records += rows.entries.length;
  }

  /** Sends the remaining rows. Resolves when all are written; rejects with `ConflictError` if a head was moved. */
  async written(): Promise<void> {
    this.#send();
    await Promise.all(this.#sent);
  }

  #send(): void {
    if (this.#waiting.length === 0) return;
    const sent = this.#write(this.#waiting);
    // If another part fails, this rejection is unused.
    sent.catch(() => {});
    this.#sent.push(sent);
    this.#waiting = [];
    this.#records = 0;
  }

  async #write(rows: readonly OwnRows[]): Promise<void> {
    if (!(await writeOfMany(this.#queries, rows, this.#clock.now())))
      throw new ConflictError("The head of a log was moved by another writer.");
  }
}
