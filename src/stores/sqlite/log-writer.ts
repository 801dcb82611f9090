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
import { findIdempotencyRecords, type KnownScopes, keepAnswers } from "../sql/idempotency-records.ts";
import { headByName, headOfTenant, readTiles, type StoredHead } from "../sql/log-rows.ts";
import { advanceHead, insertHead, insertRecords, upsertTiles } from "../sql/log-statements.ts";
import type { WithHeadLock } from "../sql/records-administration.ts";
import { addRegistrations, followWithRegistrations, indexSomeRegistrations } from "../sql/registrations.ts";
import { leavesToRead, SearchTerms } from "../sql/search-backlog.ts";
import { maxBytesAgain, readToIndex } from "../sql/search-fill.ts";
import { addSearch, beginIndex, indexOf } from "../sql/search-index.ts";
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
    const plan = planBatch(
      batch,
      batch.some(hasScope) ? await this.#findScopes(tenantId, batch, head) : () => undefined,
    );
    if (plan.fresh.length === 0 && head !== undefined)
      return { result: { log: head.origin, results: plan.results([]) }, log: head };
    const edge = await this.#edgeOf(head);
    const newest = head === undefined ? this.#signingKey.get() : undefined;
    const ownSeed = seed.subarray(0, seedBytes(plan.fresh.length));
    const key = newest?.public_key as Uint8Array | undefined;
    const sequenced = sequenceRecords(head, plan.fresh, nowMs, ownSeed, this.#originPrefix, key);
    const { index, waiting } = known?.search ?? (await this.#searchOf(tenantId, sequenced));
    const range = leavesToRead({ index, size: edge.size, waiting }, plan.fresh.length);
    const read = range && (await readToIndex(queries, tenantId, range, maxBytesAgain));
    const adding = { tenantId, terms: this.#terms, index, waiting, read };
    const { log, committed, rows } = addRecords(plan.fresh, sequenced, edge, adding);
    const result: BatchResult = { log: log.origin, results: plan.results(committed) };
    // Each call of a statement costs as much as a record of a small batch, so empty ones are skipped.
    const writing = [insertRecords(queries, tenantId, rows.entries), upsertTiles(queries, tenantId, rows.tiles)];
    if (rows.calls.length > 0) writing.push(keepAnswers(queries, tenantId, rows.calls, log.size, nowMs));
    if (rows.search.move !== undefined) writing.push(addSearch(queries, tenantId, rows.search));
    await Promise.all(writing);
    const from = head ?? ((newest?.position ?? 0) as number);
    const moved = await this.#moveHead(from, log, plan.fresh, sequenced);
    const move = rows.search.move ?? {};
    const search = { index: index && { ...index, ...move }, waiting: rows.search.waiting };
    this.#known.note({ head: moved, edge, search });
    return { result, log };
  }

  #findScopes(tenantId: TenantId, batch: readonly EncodedRecord[], head: StoredHead | undefined): Promise<KnownScopes> {
    const isNoted = this.#anchor.notesErasure.bind(this.#anchor, tenantId);
    return findIdempotencyRecords(this.#queries, tenantId, batch, Promise.resolve(head), isNoted);
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
   * Moves the head, or opens it, with the batch's registrations.
   * @param head or the position of the key that signs a new log
   */
  async #moveHead(
    head: StoredHead | number,
    log: LogState,
    records: readonly EncodedRecord[],
    sequenced: Sequenced,
  ): Promise<StoredHead> {
    const { lastRecordedAtMs } = sequenced.head;
    if (typeof head === "number") {
      const opened = { ...log, lastRecordedAtMs, keyPosition: head, registeredTo: log.size };
      await addRegistrations(this.#queries, [{ tenantId: log.tenantId, records, sequenced }]);
      await insertHead(this.#queries, opened);
      return opened;
    }
    const registeredTo = await this.#register(head, records, sequenced);
    if (!(await advanceHead(this.#queries, head, log, { lastRecordedAtMs, registeredTo })))
      throw new Error("The head of the log was moved by another writer.");
    return { ...head, ...log, lastRecordedAtMs, registeredTo };
  }

  /** Resolves with the end of the index of registrations. */
  async #register(head: StoredHead, records: readonly EncodedRecord[], sequenced: Sequenced): Promise<number> {
    if (head.registeredTo === head.size && !records.some(({ kind }) => kind === "registration"))
      return sequenced.head.size;
    const { registeredTo, write } = await followWithRegistrations(this.#queries, head, records, sequenced);
    await write();
    return registeredTo;
  }
}

const hasScope = ({ idempotency }: EncodedRecord) => idempotency !== undefined;
