/** Appends one tenant's batch to its log, inside the caller's transaction. */
import type { Clock } from "../../base/clock.ts";
import type { RandomFill, TenantId } from "../../base/ids.ts";
import { planBatch } from "../../ledger/append/batch-plan.ts";
import { edgeOf, edgeTiles } from "../../ledger/append/edge-cache.ts";
import { encodeRecord, readRecordText } from "../../ledger/append/record-text.ts";
import { type Sequenced, seedBytes } from "../../ledger/append/sequence.ts";
import { artifactKeyBytes } from "../../ledger/artifacts/registration-index.ts";
import type {
  AppendableRecord,
  BatchResult,
  EncodedRecord,
  LogState,
  TenantBatch,
  TimedLog,
} from "../../ledger/ports/store.ts";
import { shownOnly } from "../../ledger/record/committed-record.ts";
import type { LogName } from "../../ledger/tlog/log-name.ts";
import { RightEdge } from "../../ledger/tlog/right-edge.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import type { SqliteStatement } from "../files/connection.ts";
import { addRecords, sequenceRecords } from "../sql/add-records.ts";
import { refuseUnsound } from "../sql/anchoring.ts";
import { findKept, type KnownScopes, knownScopes, tilesOfKept } from "../sql/idempotency-records.ts";
import { headByName, headOfTenant, readTiles, type StoredHead } from "../sql/log-rows.ts";
import { insertHead, writeRows } from "../sql/log-statements.ts";
import type { WithHeadLock } from "../sql/records-administration.ts";
import { addRegistrations, catchUpBeside, indexSomeRegistrations } from "../sql/registrations.ts";
import { leavesToRead, SearchTerms } from "../sql/search-backlog.ts";
import { maxBytesAgain, readToIndex } from "../sql/search-fill.ts";
import { beginIndex, indexOf } from "../sql/search-index.ts";
import { KnownLogs, type SearchState } from "./known-logs.ts";
import type { SqliteQueries } from "./queries.ts";

/** A batch on its way to the store's thread, with its random bytes, drawn by the caller. */
export interface SeededBatch extends Omit<TenantBatch, "records"> {
  /** Texts of the encoded records. */
  readonly records: readonly string[];
  /** `seedBytes(records.length)` fresh random bytes. */
  readonly seed: Uint8Array;
}

/** Result of an append, valid after its commit. */
export interface AppendedBatch {
  readonly result: BatchResult;
  /** The log's newest state: the result's trees are of this size or smaller. */
  readonly log: LogState;
}

interface Machine {
  readonly clock: Clock;
  readonly random: RandomFill;
}

export class LogWriter {
  readonly #queries: SqliteQueries;
  readonly #anchor: SqliteAnchor;
  readonly #originPrefix: string;
  readonly #known = new KnownLogs();
  readonly #terms = new SearchTerms();
  readonly #version: SqliteStatement;
  readonly #signingKey: SqliteStatement;

  constructor(queries: SqliteQueries, anchor: SqliteAnchor, originPrefix: string) {
    this.#queries = queries;
    this.#version = queries.connection.prepare("PRAGMA data_version");
    this.#signingKey = queries.connection.prepare(
      "SELECT position, public_key FROM signing_keys ORDER BY position DESC LIMIT 1",
    );
    this.#anchor = anchor;
    this.#originPrefix = originPrefix;
  }

  /** Returns the head of a log by its name. Rejects with `UnsoundLogError` if it does not continue its anchor. */
  async soundHead(name: LogName): Promise<TimedLog | undefined> {
    const tenantId = (await headByName(this.#queries, name))?.tenantId;
    if (tenantId === undefined) return undefined;
    // Before the head, outside of a transaction: a concurrent append between the two is no fault.
    const anchored = this.#anchor.find(tenantId);
    const head = await headByName(this.#queries, name);
    await refuseUnsound(this.#queries, tenantId, head, anchored);
    return head;
  }

  /** Must be called after a transaction has begun. Without it, appends do not use the cache. */
  begin(): void {
    this.#known.begin(`${this.#version.get()?.data_version} ${this.#anchor.dataVersion()}`);
  }

  /** Must be called when the transaction has ended; true if it was committed and anchored. */
  end(isCommitted: boolean): void {
    this.#known.end(isCommitted);
  }

  /** Indexes some of the missing registrations of a log; resolves with whether the index is complete. */
  indexRegistrations(tenantId: TenantId, key: Uint8Array): Promise<boolean> {
    this.#known.forget(tenantId);
    return indexSomeRegistrations(this.#queries, tenantId, key);
  }

  /**
   * Appends. Rejects with `UnsoundLogError` if the log contradicts its anchor or its edge is damaged, with
   * `UnstorableError` if a record cannot be built, with an SQLite error otherwise.
   */
  async append({ tenantId, records, shown, seed }: SeededBatch, nowMs: number): Promise<AppendedBatch> {
    const { result, log } = await this.#append(tenantId, records.map(readRecordText), seed, nowMs);
    return { result: { ...result, results: shownOnly(result.results, shown) }, log };
  }

  /** Appends an operator's records to a log, which exists. Rejects like `append`. */
  appendOwn(
    tenantId: TenantId,
    records: readonly AppendableRecord[],
    { clock, random }: Machine,
  ): Promise<AppendedBatch> {
    const seed = random(new Uint8Array(seedBytes(records.length)));
    return this.#append(tenantId, records.map(encodeRecord), seed, clock.now());
  }

  /** As `AdministeredStore.withHeadLock`, in separate transactions, which `transact` runs. */
  async withHeadLock<Result>(
    tenantId: TenantId,
    work: WithHeadLock<Result>,
    machine: Machine & { readonly pause: () => Promise<void> },
    transact: <Of>(work: () => Promise<Of>) => Promise<Of>,
  ): Promise<Result> {
    // In short transactions, so that little is left for the one that erases.
    const indexSome = () => this.indexRegistrations(tenantId, machine.random(new Uint8Array(artifactKeyBytes)));
    while (!(await transact(indexSome))) await machine.pause();
    let log: LogState | undefined;
    const result = await transact(async () => {
      while (!(await indexSome()));
      return work(this.#queries, async (records) => {
        const appended = await this.appendOwn(tenantId, records, machine);
        log = appended.log;
        return appended.result;
      });
    });
    if (log !== undefined) this.#anchor.advance([log]);
    return result;
  }

  async #append(
    tenantId: TenantId,
    batch: readonly EncodedRecord[],
    seed: Uint8Array,
    nowMs: number,
  ): Promise<AppendedBatch> {
    const queries = this.#queries;
    const known = this.#known.current(tenantId);
    const head = known?.head ?? (await headOfTenant(queries, tenantId));
    if (known === undefined) await refuseUnsound(queries, tenantId, head, this.#anchor.find(tenantId));
    const plan = planBatch(batch, await this.#findScopes(tenantId, batch, head));
    if (plan.fresh.length === 0 && head !== undefined)
      return { result: { log: head.origin, results: plan.results([]) }, log: head };
    const edge = await this.#edgeOf(head);
    const newest = head === undefined ? this.#signingKey.get() : undefined;
    const ownSeed = seed.subarray(0, seedBytes(plan.fresh.length));
    const key = newest?.public_key as Uint8Array | undefined;
    const sequenced = sequenceRecords(head, plan.fresh, nowMs, ownSeed, this.#originPrefix, key);
    const { index, waiting } = known?.search ?? (await this.#searchOf(tenantId, sequenced));
    const range = leavesToRead({ index, size: edge.size, waiting }, plan.fresh.length);
    const read = range && (await readToIndex(queries, [{ tenantId, ...range }], maxBytesAgain)).get(tenantId);
    const adding = { tenantId, terms: this.#terms, index, waiting, read };
    const { log, committed, rows } = addRecords(plan.fresh, sequenced, edge, adding);
    const result: BatchResult = { log: log.origin, results: plan.results(committed) };
    const moved = await this.#register(head ?? ((newest?.position ?? 0) as number), log, plan.fresh, sequenced);
    if (head === undefined) await insertHead(queries, moved);
    if (!(await writeRows(queries, [{ ...rows, before: head, head: moved }], nowMs)))
      throw new Error("The head of the log was moved by another writer.");
    const move = rows.search.move ?? {};
    const search = { index: index && { ...index, ...move }, waiting: rows.search.waiting };
    this.#known.note({ head: moved, edge, search });
    return { result, log };
  }

  async #findScopes(
    tenantId: TenantId,
    records: readonly EncodedRecord[],
    head: StoredHead | undefined,
  ): Promise<KnownScopes> {
    const rows = await findKept(this.#queries, [{ tenantId, records }]);
    if (rows.length === 0 || head === undefined) return () => undefined;
    const tiles = rows.flatMap((row) => tilesOfKept(row, head.size));
    const isNoted = this.#anchor.notesErasure.bind(this.#anchor, tenantId);
    return knownScopes(rows, head, await readTiles(this.#queries, tenantId, tiles), isNoted);
  }

  async #edgeOf(head: StoredHead | undefined): Promise<RightEdge> {
    if (head === undefined) return new RightEdge();
    const known = this.#known.takeEdge(head);
    return known ?? edgeOf(head, undefined, await readTiles(this.#queries, head.tenantId, edgeTiles(head, undefined)));
  }

  async #searchOf(tenantId: TenantId, { searchKey: key }: Sequenced): Promise<SearchState> {
    if (key === undefined) return { index: await indexOf(this.#queries, tenantId), waiting: undefined };
    const index = { generation: 1, key, filledTo: 0 };
    await beginIndex(this.#queries, tenantId, index);
    return { index, waiting: undefined };
  }

  /**
   * Adds the batch's registrations, if the index is complete up to it. Resolves with the new head.
   * @param before or the position of the key that signs a new log
   */
  async #register(
    before: StoredHead | number,
    log: LogState,
    records: readonly EncodedRecord[],
    sequenced: Sequenced,
  ): Promise<StoredHead> {
    const { lastRecordedAtMs } = sequenced.head;
    const keyPosition = typeof before === "number" ? before : before.keyPosition;
    const head = { ...log, lastRecordedAtMs, keyPosition, registeredTo: log.size };
    if (typeof before !== "number" && before.registeredTo < before.size) {
      const registeredTo = await catchUpBeside(this.#queries, before, sequenced.artifactKey, records.length);
      if (registeredTo < before.size) return { ...head, registeredTo };
    }
    await addRegistrations(this.#queries, [{ tenantId: log.tenantId, records, sequenced }]);
    return head;
  }
}
