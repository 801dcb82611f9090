/** Appends batches to logs, under the locks of the logs' heads: in a transaction of one tenant, or of many. */
import type { TenantId } from "../../../base/ids.ts";
import { type BatchPlan, planBatch } from "../../../ledger/append/batch-plan.ts";
import { edgeOf, edgeTiles } from "../../../ledger/append/edge-cache.ts";
import { encodeRecord } from "../../../ledger/append/record-text.ts";
import { artifactKeyBytes } from "../../../ledger/artifacts/registration-index.ts";
import {
  type BatchFailure,
  type BatchOutcome,
  type BatchResult,
  type CommittedRecord,
  type EncodedRecord,
  type LogState,
  type OnUncommitted,
  type TenantBatch,
  UnstorableError,
} from "../../../ledger/ports/store.ts";
import { rotationRecord } from "../../../ledger/record/operator-records.ts";
import { type LogName, logNameOf } from "../../../ledger/tlog/log-name.ts";
import { RightEdge } from "../../../ledger/tlog/right-edge.ts";
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
import { type IndexGeneration, leavesToRead, type Waiting } from "../../sql/search-backlog.ts";
import { maxBytesAgain, readToIndex } from "../../sql/search-fill.ts";
import { addSearch, beginIndex, indexOf } from "../../sql/search-index.ts";
import { slowAfterMs, WriteSlots } from "../connection/bulkhead.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import { ConflictError, isConnectionLost, isLockTimeout, toError, UnknownOutcomeError } from "../connection/errors.ts";
import { type ConnectionPool, ofMany } from "../connection/pool.ts";
import { LogTools, type LogToolsOptions } from "./log-tools.ts";
import { appendOfMany, type SharedOutcome } from "./shared-writer.ts";
import type { SigningKeysOfStore } from "./signing-keys.ts";

/** Lock timeout of a transaction of many tenants. Transactions of tenants that are not stuck take much less. */
const sharedLockTimeoutMs = 250;

/** Records made in one turn of the event loop, so that a large group leaves turns to other calls. */
const recordsAtOnce = 16;

/** Records of a batch that shares a transaction. Others would wait too long for a larger one. */
const maxShared = 128;

export interface LogWriterOptions extends LogToolsOptions {
  readonly pool: ConnectionPool;
  /** Transactions of one tenant at a time, without those that are slow. Default: 1. */
  readonly maxApart?: number;
  /** Whether the tables are distributed over nodes: then every tenant has its own transactions. */
  readonly isDistributed?: boolean;
}

interface Appended {
  readonly result: BatchResult;
  /** The log's newest state: the result's trees are of this size or smaller. */
  readonly log: LogState;
  /** Undefined if nothing was appended. */
  readonly edge: RightEdge | undefined;
  readonly waiting: Waiting | undefined;
}

/** The head of a log under its lock. */
interface LockedHead extends StoredHead {
  /** Whether leaves were appended under the same lock, to hand the log over to newer keys. */
  readonly isHandedOver?: boolean;
}

/** A log while a batch is added: its head, and its search index. */
interface Grown extends LogIndex {
  readonly head: StoredHead;
}

export class LogWriter {
  readonly #pool: ConnectionPool;
  readonly #tools: LogTools;
  readonly #slots: WriteSlots;
  readonly #isDistributed: boolean;

  constructor({ pool, maxApart = 1, isDistributed = false, ...tools }: LogWriterOptions) {
    this.#pool = pool;
    this.#slots = new WriteSlots(maxApart, pool.timers);
    this.#isDistributed = isDistributed;
    this.#tools = new LogTools(tools);
  }

  /**
   * Appends each batch to its tenant's log. Heads that another replica has locked are skipped, then awaited together
   * with a short lock timeout; a batch whose head stays locked, or that the others would wait for, gets a transaction of
   * one tenant. So one stuck log never blocks the others. Rejects if no batch was stored.
   */
  async write(batches: readonly TenantBatch[], onUncommitted?: OnUncommitted): Promise<readonly BatchOutcome[]> {
    const startedMs = performance.now();
    const shared = this.#isDistributed ? [] : batches.filter((batch) => this.#mayShare(batch));
    const outcomes = await this.#together(shared, "skip", onUncommitted).catch((reason: unknown) => {
      const error = toError(reason);
      // Nothing was stored, or all callers are answered without another attempt.
      if (error instanceof UnstorableError || isConnectionLost(reason)) throw error;
      const failure = { error, isLate: performance.now() - startedMs > slowAfterMs };
      return new Map<TenantId, SharedOutcome>(shared.map(({ tenantId }) => [tenantId, failure]));
    });
    const held = batches.filter(({ tenantId }) => outcomes.get(tenantId) === "held");
    const again = held.length < 2 ? undefined : this.#slots.run(() => this.#together(held, "wait", onUncommitted));
    // Each batch of these reports the failure.
    again?.catch(() => {});
    return batches.map((batch) => {
      const outcome = outcomes.get(batch.tenantId);
      if (typeof outcome === "object") return outcome;
      return { later: this.#later(batch, outcome === "held" ? again : undefined, onUncommitted) };
    });
  }

  /** Whether no other tenant would wait for this batch. */
  #mayShare({ tenantId, records }: TenantBatch): boolean {
    return records.length <= maxShared && !this.#tools.doubted.has(tenantId) && !this.#pool.isSlow(tenantId);
  }

  /** Resolves with the outcomes of the transaction of many that is under way, or of a transaction of this tenant. */
  async #later(
    batch: TenantBatch,
    again: Promise<ReadonlyMap<TenantId, SharedOutcome>> | undefined,
    onUncommitted: OnUncommitted | undefined,
  ): Promise<BatchResult | BatchFailure> {
    const startedMs = performance.now();
    try {
      const outcome = (await again)?.get(batch.tenantId);
      if (typeof outcome === "object") return outcome;
      return await this.#slots.run(() => this.#pool.together(() => this.#alone(batch, onUncommitted), batch.endsAtMs));
    } catch (reason) {
      return { error: toError(reason), isLate: performance.now() - startedMs > slowAfterMs };
    }
  }

  /**
   * Appends batches of many tenants in one transaction, or leaves some out. If this rejects, nothing was stored, except
   * with `UnknownOutcomeError`.
   */
  async #together(
    batches: readonly TenantBatch[],
    lock: "skip" | "wait",
    onUncommitted: OnUncommitted | undefined,
  ): Promise<ReadonlyMap<TenantId, SharedOutcome>> {
    if (batches.length === 0) return new Map();
    const { anchoring, doubted } = this.#tools;
    const work = (connection: PostgresConnection) =>
      appendOfMany(connection, batches, { lock, tools: this.#tools, onUncommitted });
    try {
      const appended = await this.#pool.retrying(() => this.#pool.transaction(work, sharedLockTimeoutMs), ofMany);
      for (const { log, edge, search } of appended.edges) this.#keep({ log, edge, waiting: search.waiting });
      anchoring.confirm(...appended.logs);
      return appended.outcomes;
    } catch (error) {
      // Some tenant's rows are locked, and the error does not name it: each tenant is retried alone.
      if (isLockTimeout(error)) return new Map();
      if (error instanceof UnknownOutcomeError) for (const { tenantId } of batches) doubted.add(tenantId);
      throw error;
    }
  }

  /**
   * Appends in a transaction of one tenant. Rejects with `UnsoundLogError` if the log contradicts its anchor or its edge
   * is damaged, with `UnstorableError` if a record cannot be built, with `UnknownOutcomeError` if it may have become
   * durable, with an error of the driver if it has not.
   */
  async #alone({ tenantId, records }: TenantBatch, onUncommitted: OnUncommitted | undefined): Promise<BatchResult> {
    const appended = await this.#doubting(tenantId, () =>
      this.#pool.retrying(() => this.#appendOnce(tenantId, records, onUncommitted), tenantId),
    );
    this.#keep(appended);
    this.#tools.anchoring.confirm(appended.log);
    return appended.result;
  }

  /**
   * Returns the newest state of a log, durable and anchored, to be signed. A state that was confirmed before is not
   * confirmed again. Undefined if there is no such log. Rejects like `append`.
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
   * Runs work in one transaction under the lock of a tenant's head, and appends its records, at most once. The index of
   * registrations gets all leaves first: an erased record can no longer be indexed. Durable and anchored when it
   * resolves. Rejects like `append`, and as the work does.
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
            const plan = planBatch(records.map(encodeRecord), () => undefined);
            // The work may have erased waiting leaves, so they are read again.
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

  /** Indexes some of the missing registrations, in its own transaction. Resolves with whether the index is complete. */
  indexRegistrations(tenantId: TenantId): Promise<boolean> {
    const fresh = this.#tools.random(new Uint8Array(artifactKeyBytes));
    const work = (connection: PostgresConnection) => indexSomeRegistrations(connection, tenantId, fresh);
    return this.#pool.retrying(() => this.#pool.transaction(work), tenantId);
  }

  /** Hands a log over to the key that this process signs with, if it has an older one. Rejects like `append`. */
  async handOver(tenantId: TenantId): Promise<void> {
    const log = await this.#pool.retrying(() => this.#confirmHead(tenantId), tenantId);
    if (log !== undefined) this.#tools.anchoring.confirm(log);
  }

  /** Must be called after the commit. */
  #keep({ log, edge, waiting }: Pick<Appended, "log" | "edge" | "waiting">): void {
    if (edge === undefined) return;
    this.#tools.edges.put(log.tenantId, edge, log.root);
    this.#tools.waiting.put(log, waiting);
  }

  async #appendOnce(
    tenantId: TenantId,
    batch: readonly EncodedRecord[],
    onUncommitted: OnUncommitted | undefined,
  ): Promise<Appended> {
    if (this.#tools.doubted.has(tenantId)) await this.#settleDoubt(tenantId);
    const appended = await this.#pool.transaction(async (connection) => {
      // All are sent at once and answered in this order, so reads behind the lock see its state.
      const locked = this.#soundHead(connection, tenantId);
      const [head, known, index] = await Promise.all([
        locked,
        findIdempotencyRecords(connection, tenantId, batch, locked),
        indexOf(connection, tenantId),
      ]);
      if (head === undefined) return undefined;
      const waiting = this.#tools.waiting.of(head);
      // A handover appends, and so may move the index past what was read beside it.
      const current = head.isHandedOver === true ? await indexOf(connection, tenantId) : index;
      return this.#continue(connection, head, planBatch(batch, known), { index: current, waiting }, onUncommitted);
    });
    return appended ?? this.#open(tenantId, batch);
  }

  /** Locks the head. Hands over a log of an older key; rejects one of a newer key that this process lacks. */
  async #soundHead(connection: PostgresConnection, tenantId: TenantId): Promise<LockedHead | undefined> {
    const head = await lockHead(connection, tenantId);
    await this.#tools.anchoring.refuseUnsound(connection, tenantId, head);
    if (head === undefined || this.#tools.keys === undefined) return head;
    await this.#tools.keys.followLog(connection, head.keyPosition);
    return head.keyPosition < this.#tools.keys.position ? this.#handOver(connection, head, this.#tools.keys) : head;
  }

  /** Appends a leaf for every key after the log's own, which hands the log to the next key. */
  async #handOver(connection: PostgresConnection, head: StoredHead, keys: SigningKeysOfStore): Promise<LockedHead> {
    const { tenantId } = head;
    const { position } = keys;
    const machine = { clock: this.#tools.clock, random: this.#tools.random };
    const records = Array.from({ length: position - head.keyPosition }, (_, at) => {
      const next = head.keyPosition + at + 1;
      const keysOfStep = { previous: keys.at(next - 1), current: keys.at(next), statement: keys.statementAt(next) };
      return encodeRecord(rotationRecord(tenantId, { ...keysOfStep, ...machine }));
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
    onUncommitted?: OnUncommitted,
  ): Promise<Appended> {
    const { tenantId, origin } = head;
    if (plan.fresh.length === 0) {
      // The answer was read from another process's commit, which may not be durable yet.
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
      // The server has written the earlier records meanwhile, and other calls had their turn.
      await writing;
      const registering = await followWithRegistrations(connection, at.head, fresh, sequenced);
      const next = { ...at.head, ...added.log, ...sequenced.head, registeredTo: registering.registeredTo };
      writing = this.#write(connection, at.head, next, added, registering);
      // If a later record cannot be built, the result of these is unused.
      writing.catch(() => {});
      const { move, waiting } = added.rows.search;
      at = { head: next, index: at.index && { ...at.index, ...move }, waiting, read: undefined };
    }
    const result: BatchResult = { log: origin, results: plan.results(committed) };
    // While the server writes.
    onUncommitted?.(result);
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

  async #open(tenantId: TenantId, batch: readonly EncodedRecord[]): Promise<Appended> {
    const plan = planBatch(batch, () => undefined);
    const sequenced = this.#tools.sequence(undefined, plan.fresh);
    // First, in its own statement: the name's row may be on another node than the tenant's rows.
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
    // A concurrent rotation may have missed this log; the old key must then not sign it.
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

  /** Remembers the tenant if the outcome stays unknown. */
  async #doubting<Result>(tenantId: TenantId, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof UnknownOutcomeError) this.#tools.doubted.add(tenantId);
      throw error;
    }
  }

  /** Waits for the current holder of the head's lock, and makes its commit durable before anything is read. */
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
