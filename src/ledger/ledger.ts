/** The ledger over any store: appends through group commit, everything else straight to the store. */
import { ServiceError } from "../base/errors.ts";
import type { RecordId, TenantId } from "../base/ids.ts";
import { Appender, type AppenderLimits } from "./appender.ts";
import { logNameOf, parseLogName } from "./log-name.ts";
import type { Appended, Ledger, NewRecord, PublishedLog, PublishedLogs, StoredRecord } from "./ports.ts";
import type { LogSigner } from "./signer.ts";
import { type LedgerStore, UnsoundLogError } from "./store.ts";
import { parseTilePath } from "./tiles.ts";

export class StoredLedger implements Ledger, PublishedLogs {
  readonly #store: LedgerStore;
  readonly #signer: LogSigner;
  readonly #appender: Appender;
  #checking: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(store: LedgerStore, signer: LogSigner, limits?: AppenderLimits) {
    this.#store = store;
    this.#signer = signer;
    this.#appender = new Appender(store, signer, limits);
  }

  append(record: NewRecord): Promise<Appended> {
    return this.#appender.append(record);
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return this.#store.find(tenantId, recordId);
  }

  async published(): Promise<readonly PublishedLog[]> {
    const logs = await this.#store.logs();
    return logs.map(({ tenantId, origin, size }) => ({
      name: logNameOf(origin),
      tenantId,
      origin,
      size,
      verifierKeys: this.#signer.verifierKeys(origin),
    }));
  }

  async checkpoint(text: string): Promise<string | undefined> {
    const name = parseLogName(text);
    if (name === undefined) return undefined;
    const head = await this.#store.head(name).catch((cause: unknown) => {
      if (!(cause instanceof UnsoundLogError)) throw cause;
      throw new ServiceError("store_unavailable", "The log cannot be signed.", { retryAfterSeconds: 1, cause });
    });
    return head && this.#signer.sign(head);
  }

  async tile(text: string, path: string): Promise<Uint8Array | undefined> {
    const name = parseLogName(text);
    const tile = parseTilePath(path);
    return name === undefined || tile === undefined ? undefined : this.#store.tile(name, tile);
  }

  async consistencyProof(text: string, first: number, second: number): Promise<readonly Uint8Array[] | undefined> {
    const name = parseLogName(text);
    return name === undefined ? undefined : this.#store.consistencyProof(name, first, second);
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
