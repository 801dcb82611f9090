/** Appends one tenant's batch to its log, inside a transaction that the caller holds. */
import type { TenantId } from "../../../base/ids.ts";
import { type BatchPlan, planBatch, readBatch } from "../../../ledger/append/batch-plan.ts";
import { committedRecords, shownOnly } from "../../../ledger/append/committed-record.ts";
import { loadEdge } from "../../../ledger/append/edge-cache.ts";
import { type SealedEntry, type Sequenced, seedBytes, sequence } from "../../../ledger/append/sequence.ts";
import { encodedRegistrations } from "../../../ledger/artifacts/registration-index.ts";
import { type AnchoredLog, anchorProblem } from "../../../ledger/ports/anchor.ts";
import {
  type BatchResult,
  type LogState,
  type TenantBatch,
  type TimedLog,
  UnsoundLogError,
  UnstorableError,
} from "../../../ledger/ports/store.ts";
import type { ErasureOptions } from "../../../ledger/record/operator-records.ts";
import type { AppendableRecord, EncodedRecord } from "../../../ledger/record/record.ts";
import { recordText } from "../../../ledger/record/record-text.ts";
import { indexedRecords } from "../../../ledger/search/search-terms.ts";
import { RightEdge } from "../../../ledger/tlog/right-edge.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import { RegistrationIndex } from "../registrations/registration-index.ts";
import { SearchIndex, type SearchState } from "../search/search-index.ts";
import type { SqliteAnchor } from "./anchor.ts";
import { IdempotencyRecords } from "./idempotency-records.ts";
import { KnownLogs } from "./known-logs.ts";
import { LogRows, type StoredHead, TileWriter } from "./log-rows.ts";

/** A batch with the randomness that it needs, drawn where the caller owns it. */
export interface SeededBatch extends TenantBatch {
  /** `seedBytes(records.length)` fresh random bytes. */
  readonly seed: Uint8Array;
}

/** What an append did, true once it is committed. */
export interface AppendedBatch {
  readonly result: BatchResult;
  /** The log's newest state: the result's trees are of this size or smaller. */
  readonly log: LogState;
}

export class LogWriter {
  readonly #rows: LogRows;
  readonly #anchor: SqliteAnchor;
  readonly #originPrefix: string;
  readonly #known = new KnownLogs();
  readonly #version: SqliteStatement;
  readonly #idempotency: IdempotencyRecords;
  readonly #tiles: TileWriter;
  readonly #search: SearchIndex;
  readonly registrations: RegistrationIndex;
  readonly #openLog: SqliteStatement;
  readonly #advanceHead: SqliteStatement;
  readonly #signingKey: SqliteStatement;
  readonly #entry: SqliteStatement;
  readonly #opening: SqliteStatement;

  constructor(connection: SqliteConnection, anchor: SqliteAnchor, originPrefix: string) {
    this.#rows = new LogRows(connection);
    this.#version = connection.prepare("PRAGMA data_version");
    this.#anchor = anchor;
    this.#originPrefix = originPrefix;
    const isNoted = anchor.notesErasure.bind(anchor);
    this.#idempotency = new IdempotencyRecords(connection, this.#rows, isNoted);
    this.registrations = new RegistrationIndex(connection);
    this.#tiles = new TileWriter(connection);
    this.#search = new SearchIndex(connection);
    this.#openLog = connection.prepare(
      `INSERT INTO log_heads (origin, size, root, last_recorded_at_ms, registered_to, tenant_id)
       VALUES (?, ?, ?, ?, ?, ?)`,
    );
    this.#advanceHead = connection.prepare(
      `UPDATE log_heads SET size = ?, root = ?, last_recorded_at_ms = ?, registered_to = ?
        WHERE tenant_id = ? AND size = ? AND root = ?`,
    );
    this.#signingKey = connection.prepare("SELECT public_key FROM signing_keys ORDER BY position DESC LIMIT 1");
    this.#entry = connection.prepare(
      "INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed) VALUES (?, ?, ?, ?, ?)",
    );
    this.#opening = connection.prepare("INSERT INTO openings (tenant_id, record_id, opening) VALUES (?, ?, ?)");
  }

  /** The head of a log by its name, if it goes on from its anchor. Throws `UnsoundLogError` where it does not. */
  soundHead(name: string): TimedLog | undefined {
    const tenantId = this.#rows.headByName(name)?.tenantId;
    if (tenantId === undefined) return undefined;
    // Before the head, outside of a transaction: what another process appends and notes between the two is no fault.
    const anchored = this.#anchor.find(tenantId);
    const head = this.#rows.headByName(name);
    this.#refuseUnsound(tenantId, head, anchored);
    return head;
  }

  /**
   * A transaction has begun on the connection, and `end` will be called after it. Without that, nothing is believed of what
   * appends before it did.
   */
  begin(): void {
    this.#known.begin(`${this.#version.get()?.data_version} ${this.#anchor.dataVersion()}`);
  }

  /** The transaction has ended; true where it was committed and the anchor was advanced to what it did. */
  end(isCommitted: boolean): void {
    this.#known.end(isCommitted);
  }

  /** Looks at some of the leaves that a log's index of registrations has not got yet. */
  indexRegistrations(tenantId: TenantId, key: Uint8Array): void {
    this.#known.forget(tenantId);
    this.registrations.catchUp(tenantId, key);
  }

  /**
   * Appends. Throws `UnsoundLogError` where the log is not what its anchor says or its edge is damaged,
   * `UnstorableError` where a record cannot be built, an SQLite error otherwise.
   */
  append({ tenantId, records, shown, seed }: SeededBatch, nowMs: number): AppendedBatch {
    const known = this.#known.current(tenantId);
    const head = known?.head ?? this.#rows.headOfTenant(tenantId);
    if (known === undefined) this.#refuseUnsound(tenantId, head, this.#anchor.find(tenantId));
    const plan = planBatch(readBatch(records), (idempotency) => this.#idempotency.find(tenantId, idempotency));
    if (plan.fresh.length === 0 && head !== undefined)
      return { result: { log: head.origin, results: shownOnly(plan.results([]), shown) }, log: head };
    const edge = head === undefined ? new RightEdge() : (this.#known.takeEdge(head) ?? this.#loadEdge(head));
    const sequenced = this.#sequence(head, plan.fresh, nowMs, seed);
    for (const entry of sequenced.entries) this.#insert(tenantId, entry, edge);
    const tree = edge.tree();
    const log: LogState = { tenantId, origin: sequenced.head.origin, size: edge.size, root: tree.root() };
    const committed = committedRecords(sequenced, tree, log);
    this.#tiles.write(tenantId, edge.takeTouched());
    this.#keepAnswers(tenantId, plan, sequenced, log.size, nowMs);
    const search = this.#search.append(tenantId, known?.search ?? this.#searchOf(tenantId, sequenced), {
      before: head?.size ?? 0,
      size: log.size,
      records: indexedRecords(sequenced, plan.fresh),
    });
    const registeredTo = this.#register(tenantId, head, plan, sequenced);
    this.#moveHead(head, sequenced, log, registeredTo);
    const { lastRecordedAtMs } = sequenced.head;
    this.#known.note({ head: { ...log, lastRecordedAtMs, registeredTo }, edge, search });
    return { result: { log: log.origin, results: shownOnly(plan.results(committed), shown) }, log };
  }

  /** Appends what an operator did to a log. Throws like `append`. */
  appendOwn(
    tenantId: TenantId,
    records: readonly AppendableRecord[],
    { clock, random }: Pick<ErasureOptions, "clock" | "random">,
  ): AppendedBatch {
    const seed = random(new Uint8Array(seedBytes(records.length)));
    return this.append({ tenantId, records: records.map((record) => recordText(record)), seed }, clock.now());
  }

  #loadEdge(head: TimedLog): RightEdge {
    return loadEdge(head, (level, index) => this.#rows.tile(head.tenantId, level, index));
  }

  #refuseUnsound(tenantId: TenantId, log: TimedLog | undefined, anchored: AnchoredLog | undefined): void {
    const problem = problemOf(() =>
      anchorProblem(anchored, { log, rootAt: (size) => this.#rows.rootAt(tenantId, size) }),
    );
    if (problem !== undefined) throw new UnsoundLogError(problem);
  }

  #sequence(head: TimedLog | undefined, records: readonly EncodedRecord[], nowMs: number, seed: Uint8Array): Sequenced {
    const [first, ...rest] = records;
    if (first === undefined) throw new UnstorableError("The batch is empty.");
    // Outside of the attempt: a store that cannot be read is no fault of the record.
    const key = head === undefined ? this.#signingKey.get()?.public_key : undefined;
    try {
      const ownSeed = seed.subarray(0, seedBytes(records.length));
      return sequence(head, [first, ...rest], nowMs, ownSeed, this.#originPrefix, key as Uint8Array | undefined);
    } catch (cause) {
      throw new UnstorableError(cause instanceof Error ? cause.message : "The record cannot be built.", { cause });
    }
  }

  #insert(tenantId: TenantId, entry: SealedEntry, edge: RightEdge): void {
    const { leafIndex, recordId, leaf, sealed, opening } = entry;
    edge.append(entry.leafHash);
    this.#entry.run(tenantId, leafIndex, recordId, leaf, sealed);
    this.#opening.run(tenantId, recordId, opening);
  }

  #keepAnswers(tenantId: TenantId, { fresh }: BatchPlan, sequenced: Sequenced, treeSize: number, nowMs: number): void {
    const entries = sequenced.entries.slice(-fresh.length);
    this.#idempotency.makeRoom(tenantId, fresh.filter(({ idempotency }) => idempotency !== undefined).length, nowMs);
    fresh.forEach(({ idempotency }, position) => {
      const entry = entries[position];
      if (idempotency === undefined || entry === undefined) return;
      const { leafIndex, opening } = entry;
      this.#idempotency.keep(tenantId, idempotency, { leafIndex, treeSize, opening }, nowMs);
    });
  }

  #searchOf(tenantId: TenantId, { searchKey }: Sequenced): SearchState {
    return searchKey === undefined ? this.#search.stateOf(tenantId) : this.#search.begin(tenantId, searchKey);
  }

  /** Returns the leaf that the index of registrations has come to. */
  #register(tenantId: TenantId, head: StoredHead | undefined, { fresh }: BatchPlan, sequenced: Sequenced): number {
    const registrations = encodedRegistrations(fresh, sequenced.firstLeafIndex);
    const { registeredTo, size } = head ?? { registeredTo: 0, size: 0 };
    const leaves = { registeredTo, size, end: sequenced.head.size };
    return this.registrations.append(tenantId, leaves, registrations, sequenced.artifactKey);
  }

  #moveHead(
    head: TimedLog | undefined,
    { head: next }: Sequenced,
    { tenantId, origin, size, root }: LogState,
    registeredTo: number,
  ): void {
    const values = [size, root, next.lastRecordedAtMs, registeredTo, tenantId] as const;
    if (head === undefined) {
      this.#openLog.run(origin, ...values);
      return;
    }
    const { changes } = this.#advanceHead.run(...values, head.size, head.root);
    if (Number(changes) !== 1) throw new Error("The head of the log was moved by another writer.");
  }
}

/** A root that cannot be computed is a problem of the log like any other; a disk that fails is none. */
export function problemOf(find: () => string | undefined): string | undefined {
  try {
    return find();
  } catch (error) {
    if (error instanceof Error && error.name === "MissingTileError") return error.message;
    throw error;
  }
}
