/** The ledger over any store: appends through group commit, everything else straight to the store. */
import type { RecordId, TenantId } from "../base/ids.ts";
import { Appender, type AppenderLimits } from "./appender.ts";
import type { Appended, Ledger, NewRecord, StoredRecord } from "./ports.ts";
import type { LedgerStore } from "./store.ts";

export class StoredLedger implements Ledger {
  readonly #store: LedgerStore;
  readonly #appender: Appender;
  #checking: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(store: LedgerStore, limits?: AppenderLimits) {
    this.#store = store;
    this.#appender = new Appender(store, limits);
  }

  append(record: NewRecord): Promise<Appended> {
    return this.#appender.append(record);
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return this.#store.find(tenantId, recordId);
  }

  keepPolicyRevision(revision: string, content: string): Promise<void> {
    return this.#store.keepPolicyRevision(revision, content);
  }

  /** Checks that come while one is under way share its answer, so that probes cannot load the store. */
  check(): Promise<void> {
    this.#checking ??= this.#store.check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  close(): Promise<void> {
    this.#closing ??= this.#appender.close().then(() => this.#store.close());
    return this.#closing;
  }
}
