/** The ledger over any store: appends through group commit, everything else straight to the store. */
import { ServiceError } from "../../base/errors.ts";
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { Span } from "../../base/trace.ts";
import type { SharedAnchor } from "../ports/anchor.ts";
import type { Appended, Ledger, PublishedLog, PublishedLogs, RecordGroup, ShownOfRecord } from "../ports/ledger.ts";
import type { NewRecord, StoredRecord } from "../ports/record.ts";
import type { ArtifactRegistrations } from "../ports/registrations.ts";
import type { SearchPage, SearchQuery } from "../ports/search.ts";
import { type LedgerStore, UnsoundLogError } from "../ports/store.ts";
import { logNameOf, parseLogName } from "../tlog/log-name.ts";
import { type CheckpointSigner, cosigning } from "../tlog/signer.ts";
import { parseTilePath } from "../tlog/tiles.ts";
import { Appender } from "./appender.ts";
import { GroupRooms, QueuedGroup } from "./group.ts";
import { type AppenderLimits, defaultAppenderLimits } from "./limits.ts";
import { type CommitObserver, observedWriter } from "./observed.ts";

export class StoredLedger implements Ledger, PublishedLogs {
  readonly #store: LedgerStore;
  readonly #signer: CheckpointSigner;
  readonly #anchor: SharedAnchor | undefined;
  readonly #appender: Appender;
  readonly #rooms: GroupRooms;
  #checking: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  /** The ledger closes the anchor, if there is one besides the store's own. */
  constructor(
    store: LedgerStore,
    signer: CheckpointSigner,
    limits: AppenderLimits = defaultAppenderLimits,
    anchor?: SharedAnchor,
    commits?: CommitObserver,
  ) {
    this.#store = store;
    this.#signer = anchor === undefined ? signer : cosigning(signer, anchor);
    this.#anchor = anchor;
    const writer = commits === undefined ? store : observedWriter(store, commits);
    this.#appender = new Appender(writer, this.#signer, limits, anchor, undefined, commits);
    this.#rooms = new GroupRooms(limits.maxQueuedPerTenant);
    commits?.watchWaiting?.(() => this.#appender.waiting);
  }

  append(record: NewRecord, span?: Span): Promise<Appended> {
    return this.#appender.append(record, span);
  }

  group(tenantId: TenantId, shown?: ShownOfRecord): RecordGroup {
    return new QueuedGroup(this.#appender, this.#rooms, tenantId, shown);
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return this.#store.find(tenantId, recordId);
  }

  registrations(tenantId: TenantId, names: readonly string[]): Promise<readonly ArtifactRegistrations[]> {
    return this.#store.registrations(tenantId, names);
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

  async tenantOf(text: string): Promise<TenantId | undefined> {
    const name = parseLogName(text);
    return name === undefined ? undefined : (await this.#store.log(name))?.tenantId;
  }

  async search(text: string, query: Omit<SearchQuery, "tenantId">): Promise<SearchPage | undefined> {
    const tenantId = await this.tenantOf(text);
    return tenantId === undefined ? undefined : this.#store.search({ ...query, tenantId });
  }

  async checkpoint(text: string): Promise<string | undefined> {
    const name = parseLogName(text);
    if (name === undefined) return undefined;
    const head = await this.#store.head(name).catch((cause: unknown) => {
      if (!(cause instanceof UnsoundLogError)) throw cause;
      throw new ServiceError("store_unavailable", "The log cannot be signed.", { retryAfterSeconds: 1, cause });
    });
    if (head === undefined) return undefined;
    await this.#anchor?.confirm(head);
    return this.#signer.sign(head);
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

  async multiProof(log: string, size: number, leafIndices: readonly number[]): Promise<readonly Uint8Array[]> {
    const nodes = await this.#store.multiProof(logNameOf(log), size, leafIndices);
    if (nodes === undefined) throw new ServiceError("internal", "The log is smaller than it was.");
    return nodes;
  }

  keepPolicyRevision(revision: string, content: string | Uint8Array): Promise<void> {
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
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#appender.close();
    await this.#anchor?.close();
    await this.#store.close();
  }
}
