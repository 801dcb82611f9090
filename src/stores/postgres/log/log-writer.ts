/** Appends batches to logs, under the locks of the logs' heads: in a transaction of one tenant, or of many. */
import type { TenantId } from "../../../base/ids.ts";
import { type BatchPlan, planBatch, readBatch } from "../../../ledger/append/batch-plan.ts";
import { edgeOf, edgeTiles } from "../../../ledger/append/edge-cache.ts";
import { artifactKeyBytes } from "../../../ledger/artifacts/registration-index.ts";
import {
  type BatchOutcome,
  type BatchResult,
  type CommittedRecord,
  type Foresee,
  type LogState,
  type Patience,
  type TenantBatch,
  UnstorableError,
} from "../../../ledger/ports/store.ts";
import { rotationRecord } from "../../../ledger/record/operator-records.ts";
import type { EncodedRecord } from "../../../ledger/record/record.ts";
import { writeRecord } from "../../../ledger/record/record-text.ts";
import { type LogName, logNameOf } from "../../../ledger/tlog/log-name.ts";
import { RightEdge } from "../../../ledger/tlog/right-edge.ts";
import { type IndexGeneration, leavesToRead, type Waiting } from "../../search-backlog.ts";
import type { AddedRows, LogIndex } from "../../sql/add-records.ts";
import { findIdempotencyRecords, keepAnswers } from "../../sql/idempotency-records.ts";
import { headByName, headOfTenant, lockHead, readTiles, type StoredHead } from "../../sql/log-rows.ts";
import {
  advanceHead,
  insertHead,
  insertRecords,
  namingLog,
  passOnLog,
  touch,
  upsertTiles,
} from "../../sql/log-statements.ts";
import type { WithHeadLock } from "../../sql/records-administration.ts";
import {
  addRegistrations,
  followWithRegistrations,
  indexAllRegistrations,
  indexSomeRegistrations,
} from "../../sql/registrations.ts";
import { maxBytesAgain, readToIndex } from "../../sql/search-fill.ts";
import { addSearch, beginIndex, indexOf } from "../../sql/search-index.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import { ConflictError, isLockTimeout, UnknownOutcomeError } from "../connection/errors.ts";
import { type ConnectionPool, ofMany } from "../connection/pool.ts";
import { LogTools, type LogToolsOptions } from "./log-tools.ts";
import { appendOfMany } from "./shared-writer.ts";
import type { SigningKeysOfStore } from "./signing-keys.ts";

/** How long a transaction of many tenants waits for a lock. Where nobody is stuck, those of others take much less. */
const sharedLockTimeoutMs = 250;

/** Records that are made in one turn of the event loop: those of a large group take many, so that other calls have theirs. */
const recordsAtOnce = 16;

export interface LogWriterOptions extends LogToolsOptions {
  readonly pool: ConnectionPool;
}

/** Outcome of an append; valid only once its transaction has committed. */
interface Appended {
  readonly result: BatchResult;
  /** The log's newest state: the result's trees are of this size or smaller. */
  readonly log: LogState;
  /** Undefined where nothing was appended. */
  readonly edge: RightEdge | undefined;
  readonly waiting: Waiting | undefined;
}

/** The head of a log under its lock. */
interface LockedHead extends StoredHead {
  /** Whether leaves were appended under the same lock, for keys that follow the one that signed the log before. */
  readonly isHandedOver?: boolean;
}

/** A log while a batch is added to it: its head, and its search index as the next records find it. */
interface Grown extends LogIndex {
  readonly head: StoredHead;
}

export class LogWriter {
  readonly #pool: ConnectionPool;
  readonly #tools: LogTools;

  constructor({ pool, ...tools }: LogWriterOptions) {
    this.#pool = pool;
    this.#tools = new LogTools(tools);
  }

  /**
   * Appends. Durable and anchored when it resolves. Rejects with `UnsoundLogError` where the log is not what its anchor
   * says or its edge is damaged, with `UnstorableError` where a record cannot be built, with `UnknownOutcomeError`
   * where it may have become durable, with an error of the driver where it has not.
   */
  async append({ tenantId, records }: TenantBatch, foresee?: Foresee): Promise<BatchResult> {
    const batch = readBatch(records);
    const appended = await this.#doubting(tenantId, () =>
      this.#pool.retrying(() => this.#appendOnce(tenantId, batch, foresee), tenantId),
    );
    this.#keep(appended);
    this.#tools.anchoring.confirm(appended.log);
    return appended.result;
  }

  /**
   * Appends the batches of many tenants in one transaction, durable and anchored when it resolves. A tenant whose log is
   * held, for longer than a moment where the write waits so long, or that needs a transaction of its own, is left. Where it rejects nothing was stored, save with
   * `UnknownOutcomeError`; else as `append`.
   */
  async appendOfMany(
    batches: readonly TenantBatch[],
    patience: Exclude<Patience, "full">,
    foresee?: Foresee,
  ): Promise<readonly BatchOutcome[]> {
    const { anchoring, doubted } = this.#tools;
    const work = (connection: PostgresConnection) =>
      appendOfMany(connection, batches, { patience, tools: this.#tools, foresee });
    try {
      const appended = await this.#pool.retrying(() => this.#pool.transaction(work, sharedLockTimeoutMs), ofMany);
      for (const { log, edge, search } of appended.edges) this.#keep({ log, edge, waiting: search.waiting });
      anchoring.confirm(...appended.logs);
      return batches.map(({ tenantId }) => appended.outcomes.get(tenantId) ?? { left: "apart" });
    } catch (error) {
      // Somebody's rows are locked, and nobody knows whose: each of them for himself.
      if (isLockTimeout(error)) return batches.map(() => ({ left: "apart" }));
      if (error instanceof UnknownOutcomeError) for (const { tenantId } of batches) doubted.add(tenantId);
      throw error;
    }
  }

  /**
   * The newest state of a log, to be signed: durable, and anchored. A state that was seen to be is not made sure of
   * again. Undefined where there is no such log. Rejects like `append`.
   */
  async head(name: LogName): Promise<LogState | undefined> {
    const head = await headByName(this.#pool, name);
    if (head === undefined) return undefined;
    await this.#tools.keys?.followLog(this.#pool, head.keyPosition);
    if (this.#tools.anchoring.isConfirmed(head)) return head;
    const log = await this.#pool.retrying(() => this.#confirmHead(head.tenantId), head.tenantId);
    if (log !== undefined) this.#tools.anchoring.confirm(log);
    return log;
  }

  /**
   * Runs work in one transaction under the lock of a tenant's head, and appends the records that it gives, at most once.
   * The index of registrations has all leaves before it begins: of what is erased it could not be told any more.
   * Durable and anchored when it resolves. Rejects like `append`, and as the work does.
   */
  async withHeadLock<Result>(tenantId: TenantId, work: WithHeadLock<Result>): Promise<Result> {
    const fresh = () => this.#tools.random(new Uint8Array(artifactKeyBytes));
    while (!(await this.indexRegistrations(tenantId)));
    const { result, appended } = await this.#doubting(tenantId, () =>
      this.#pool.retrying(() =>
        this.#pool.transaction(async (connection) => {
          const found = await this.#soundHead(connection, tenantId);
          const head = found && (await indexAllRegistrations(connection, found, fresh()));
          let appended: Appended | undefined;
          const result = await work(connection, async (records) => {
            if (head === undefined) throw new UnstorableError("The tenant has no log.");
            const plan = planBatch(records.map(writeRecord), () => undefined);
            // The work may have erased what waits: it is read again.
            appended = await this.#continue(connection, head, plan, {
              index: await indexOf(connection, tenantId),
              waiting: undefined,
            });
            return appended.result;
          });
          return { result, appended: appended as Appended | undefined };
        }),
      ),
    );
    if (appended !== undefined) this.#keep(appended);
    if (appended !== undefined) this.#tools.anchoring.confirm(appended.log);
    return result;
  }

  /**
   * Looks, in a transaction of its own, at some of the leaves that the index of registrations has not got yet. Resolves
   * with whether it has all of them then.
   */
  indexRegistrations(tenantId: TenantId): Promise<boolean> {
    const fresh = this.#tools.random(new Uint8Array(artifactKeyBytes));
    const work = (connection: PostgresConnection) => indexSomeRegistrations(connection, tenantId, fresh);
    return this.#pool.retrying(() => this.#pool.transaction(work), tenantId);
  }

  /** Hands a log over to the key that this process signs with, where it has an older one. Rejects like `append`. */
  async handOver(tenantId: TenantId): Promise<void> {
    const log = await this.#pool.retrying(() => this.#confirmHead(tenantId), tenantId);
    if (log !== undefined) this.#tools.anchoring.confirm(log);
  }

  /** To be called once it is committed. */
  #keep({ log, edge, waiting }: Pick<Appended, "log" | "edge" | "waiting">): void {
    if (edge === undefined) return;
    this.#tools.edges.put(log.tenantId, edge, log.root);
    this.#tools.waiting.put(log, waiting);
  }

  async #appendOnce(
    tenantId: TenantId,
    batch: readonly EncodedRecord[],
    foresee: Foresee | undefined,
  ): Promise<Appended> {
    if (this.#tools.doubted.has(tenantId)) await this.#settleDoubt(tenantId);
    const appended = await this.#pool.transaction(async (connection) => {
      // All sent at once, and answered in this order: what follows the lock is seen under it.
      const [head, known, index] = await Promise.all([
        this.#soundHead(connection, tenantId),
        findIdempotencyRecords(connection, tenantId, batch),
        indexOf(connection, tenantId),
      ]);
      if (head === undefined) return undefined;
      const waiting = this.#tools.waiting.of(head);
      // A handover appends, and so may move the index on from what was asked for beside it.
      const current = head.isHandedOver === true ? await indexOf(connection, tenantId) : index;
      return this.#continue(connection, head, planBatch(batch, known), { index: current, waiting }, foresee);
    });
    return appended ?? this.#open(tenantId, batch);
  }

  /**
   * Locks the head. A log that another key signs by now is continued only where this process has that key; one that its
   * own key has not signed yet is handed over first.
   */
  async #soundHead(connection: PostgresConnection, tenantId: TenantId): Promise<LockedHead | undefined> {
    const head = await lockHead(connection, tenantId);
    await this.#tools.anchoring.refuseUnsound(connection, tenantId, head);
    if (head === undefined || this.#tools.keys === undefined) return head;
    await this.#tools.keys.followLog(connection, head.keyPosition);
    return head.keyPosition < this.#tools.keys.position ? this.#handOver(connection, head, this.#tools.keys) : head;
  }

  /** Says in the log, for every key since the one that it has, that the next one signs from there on. */
  async #handOver(connection: PostgresConnection, head: StoredHead, keys: SigningKeysOfStore): Promise<LockedHead> {
    const { tenantId } = head;
    const { position } = keys;
    const machine = { clock: this.#tools.clock, random: this.#tools.random };
    const records = Array.from({ length: position - head.keyPosition }, (_, at) => {
      const next = head.keyPosition + at + 1;
      const keysOfStep = { previous: keys.at(next - 1), current: keys.at(next), statement: keys.statementAt(next) };
      return writeRecord(rotationRecord(tenantId, { ...keysOfStep, ...machine }));
    });
    const plan = planBatch(records, () => undefined);
    const index = await indexOf(connection, tenantId);
    await this.#continue(connection, head, plan, { index, waiting: undefined });
    await passOnLog(connection, tenantId, position);
    return { ...((await headOfTenant(connection, tenantId)) ?? head), isHandedOver: true };
  }

  async #continue(
    connection: PostgresConnection,
    head: StoredHead,
    plan: BatchPlan,
    { index, waiting }: Omit<LogIndex, "read">,
    foresee?: Foresee,
  ): Promise<Appended> {
    const { tenantId, origin } = head;
    if (plan.fresh.length === 0) {
      // What is answered was read: another process may have committed it and not known whether it is durable.
      await touch(connection, tenantId);
      return { result: { log: origin, results: plan.results([]) }, log: head, edge: undefined, waiting: undefined };
    }
    const known = this.#tools.edges.take(head);
    const edge = edgeOf(head, known, await readTiles(connection, tenantId, edgeTiles(head, known)));
    const range = leavesToRead({ index, size: head.size, waiting }, plan.fresh.length);
    const read = range && (await readToIndex(connection, tenantId, range, maxBytesAgain));
    const committed: CommittedRecord[] = [];
    let at: Grown = { head, index, waiting, read };
    let writing: Promise<void> | undefined;
    for (let first = 0; first < plan.fresh.length; first += recordsAtOnce) {
      const fresh = plan.fresh.slice(first, first + recordsAtOnce);
      const sequenced = this.#tools.sequence(at.head, fresh);
      const added = this.#tools.addRecords(fresh, sequenced, edge, { tenantId, ...at });
      committed.push(...added.committed);
      // The server has written the records before these while these were made, and other calls have had their turn.
      await writing;
      const registering = await followWithRegistrations(connection, at.head, fresh, sequenced);
      const next = { ...at.head, ...added.log, ...sequenced.head, registeredTo: registering.registeredTo };
      writing = this.#write(connection, at.head, next, added, registering);
      // If a later record cannot be built, nothing waits for these.
      writing.catch(() => {});
      const { move, waiting } = added.rows.search;
      at = { head: next, index: at.index && { ...at.index, ...move }, waiting, read: undefined };
    }
    const result: BatchResult = { log: origin, results: plan.results(committed) };
    // While the server writes.
    foresee?.(result);
    await writing;
    return { result, log: at.head, edge, waiting: at.waiting };
  }

  async #write(
    connection: PostgresConnection,
    head: StoredHead,
    next: StoredHead,
    { log, rows }: { readonly log: LogState; readonly rows: AddedRows },
    registering: { readonly write: () => Promise<void> },
  ): Promise<void> {
    const [moved] = await Promise.all([
      advanceHead(connection, head, log, next),
      registering.write(),
      this.#writeRows(connection, log, rows),
    ]);
    if (!moved) throw new ConflictError("The head of the log was moved by another writer.");
  }

  /** The first batch of a tenant. */
  async #open(tenantId: TenantId, batch: readonly EncodedRecord[]): Promise<Appended> {
    const plan = planBatch(batch, () => undefined);
    const sequenced = this.#tools.sequence(undefined, plan.fresh);
    // Before the log and apart from it: the name's row need not be where the tenant's rows are.
    await this.#pool.write(...namingLog(logNameOf(sequenced.head.origin), tenantId));
    const index: IndexGeneration = { generation: 1, key: sequenced.searchKey as Uint8Array, filledTo: 0 };
    const opened = await this.#pool.transaction(async (connection) => {
      const edge = new RightEdge();
      const { log, committed, rows } = this.#tools.addRecords(plan.fresh, sequenced, edge, {
        tenantId,
        index,
        waiting: undefined,
        read: undefined,
      });
      const result: BatchResult = { log: log.origin, results: plan.results(committed) };
      const { lastRecordedAtMs } = sequenced.head;
      const keyPosition = this.#tools.keys?.position ?? 0;
      const isOurs = await insertHead(connection, { ...log, lastRecordedAtMs, keyPosition, registeredTo: log.size });
      if (!isOurs) throw new ConflictError("The log was opened by another writer.");
      await Promise.all([
        addRegistrations(connection, [{ tenantId, records: plan.fresh, sequenced }]),
        // Before the rows, which may move the index on.
        beginIndex(connection, tenantId, index),
        this.#writeRows(connection, log, rows),
      ]);
      return { result, log, edge, waiting: rows.search.waiting };
    });
    // A rotation that was noted meanwhile may not have seen this log: then nothing is signed with the old key.
    await this.#tools.keys?.follow(this.#pool);
    return opened;
  }

  async #writeRows(
    connection: PostgresConnection,
    { tenantId, size }: LogState,
    { entries, tiles, calls, search }: AddedRows,
  ): Promise<void> {
    await Promise.all([
      insertRecords(connection, tenantId, entries),
      upsertTiles(connection, tenantId, tiles),
      keepAnswers(connection, tenantId, calls, size, this.#tools.clock.now()),
      addSearch(connection, tenantId, search),
    ]);
  }

  /** Remembers where the outcome stays unknown. */
  async #doubting<Result>(tenantId: TenantId, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof UnknownOutcomeError) this.#tools.doubted.add(tenantId);
      throw error;
    }
  }

  /** Waits for whoever holds the head still, and makes durable what is there before anything is read of it. */
  async #settleDoubt(tenantId: TenantId): Promise<void> {
    await this.#confirmHead(tenantId);
    this.#tools.doubted.delete(tenantId);
  }

  async #confirmHead(tenantId: TenantId): Promise<LogState | undefined> {
    return this.#pool.transaction(async (connection) => {
      const head = await this.#soundHead(connection, tenantId);
      await touch(connection, tenantId);
      return head;
    });
  }
}
