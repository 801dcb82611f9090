/** A ledger that tells how its writes go, for discovery and metrics. */
import { ServiceError } from "../../base/errors.ts";
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { Appended, Ledger } from "../ports/ledger.ts";
import type { NewRecord, StoredRecord } from "../ports/record.ts";

export class ObservedLedger implements Ledger {
  readonly #ledger: Ledger;
  readonly #onFailure: () => void;
  #writable = true;

  /** `onFailure` is told of every append that the store refused. */
  constructor(ledger: Ledger, onFailure: () => void) {
    this.#ledger = ledger;
    this.#onFailure = onFailure;
  }

  /** Whether the newest append or check found the store writable. */
  get writable(): boolean {
    return this.#writable;
  }

  append(record: NewRecord): Promise<Appended> {
    return this.#observe(this.#ledger.append(record), this.#onFailure);
  }

  check(): Promise<void> {
    return this.#observe(this.#ledger.check());
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return this.#ledger.find(tenantId, recordId);
  }

  keepPolicyRevision(revision: string, content: string): Promise<void> {
    return this.#ledger.keepPolicyRevision(revision, content);
  }

  close(): Promise<void> {
    return this.#ledger.close();
  }

  async #observe<T>(work: Promise<T>, onFailure?: () => void): Promise<T> {
    try {
      const result = await work;
      this.#writable = true;
      return result;
    } catch (error) {
      // An entry that is refused for what it says is no failure of the store.
      if (error instanceof ServiceError && error.reason === "store_unavailable") {
        this.#writable = false;
        onFailure?.();
      }
      throw error;
    }
  }
}
