/** Erases and holds records, beside the services that write to the store. The comments are the contract. */
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { RandomFill, RecordId, TenantId } from "../../base/ids.ts";
import { encodeRecord } from "../../ledger/append/record-text.ts";
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import {
  type ErasureResult,
  type LegalHold,
  maxErasedAtOnce,
  type ReapplyResult,
} from "../../ledger/ports/records-administration.ts";
import { type AppendableRecord, type BatchResult, UnstorableError } from "../../ledger/ports/store.ts";
import { clockAcceptanceRecord, holdReleaseRecord } from "../../ledger/record/operator-records.ts";
import { type Appended, appendBatches } from "./appending.ts";
import type { StoreDatabase } from "./backend.ts";
import {
  type AppendOwn,
  eraseRecords,
  findErasable,
  findHold,
  findUndone,
  insertHold,
  refusalsOf,
  releaseHold,
  removeUndone,
} from "./erasure.ts";
import { isTimeAccepted, lockHead, type StoredHead } from "./log-rows.ts";
import { LogTools, touch } from "./log-tools.ts";
import { type Transaction, throughAll, translated } from "./queries.ts";
import { isAhead, refuseUnsound } from "./store-checks.ts";

export interface AdministrationMachine {
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Resolves after other work had a turn. */
  readonly pause: () => Promise<void>;
}

export type RecordsAdministration = Awaited<ReturnType<typeof administer>>;

/**
 * Erases and holds records in a store that is opened for upkeep. Opens its anchor; closes the store if that fails. All
 * methods reject with `store_unavailable` if the store cannot be used, in which case the change may or may not have
 * happened, and with `UnsoundLogError` if the tenant's log contradicts its anchor.
 */
export async function administer(store: StoreDatabase, machine: AdministrationMachine) {
  const anchor = await store.openAnchor().catch(async (error: unknown) => {
    await store.close();
    throw error;
  });
  const notes = store.notesErasures ? anchor : undefined;
  const { clock, random, pause } = machine;

  /**
   * Runs work in one transaction under the lock of a tenant's log head; it may append once. Durable and anchored when it
   * resolves. Rejects with `UnsoundLogError` if the log contradicts its anchor, and as the work does.
   */
  async function withHeadLock<Result>(
    tenantId: TenantId,
    work: (transaction: Transaction, append: AppendOwn, head: StoredHead | undefined) => Promise<Result>,
  ): Promise<Result> {
    // Every log exists, so no origin is made. Nothing is remembered: the work may have erased waiting leaves.
    const tools = new LogTools({ clock, random, anchor, originPrefix: "" });
    const { result, appended } = await store.transact(async (transaction) => {
      const head = await lockHead(transaction, tenantId);
      await refuseUnsound(transaction, head, anchor?.find(tenantId));
      let appended: Appended = { outcomes: new Map(), logs: [] };
      const append = async (records: readonly AppendableRecord[]) => {
        if (head === undefined) throw new UnstorableError("The tenant has no log.");
        const batch = { tenantId, records: records.map(encodeRecord) };
        appended = await appendBatches(transaction, [batch], { taking: "apart", tools });
        return appended.outcomes.get(tenantId) as BatchResult;
      };
      const result = await work(transaction, append, head);
      // What was read may be another process's commit, which may not be durable yet.
      if (head !== undefined && appended.logs.length === 0) await touch(transaction, [tenantId]);
      return { result, appended };
    }, tenantId);
    tools.keep(appended.logs);
    return result;
  }

  /** Erases all of the records or none; of `some`, those that may be. Does not overwrite their bytes. */
  async function eraseAtOnce(
    tenantId: TenantId,
    recordIds: readonly RecordId[],
    statement: ErasureStatement,
    which: "all" | "some",
  ) {
    const result = await withHeadLock(tenantId, async (transaction, append) => {
      const found = await findErasable(transaction, tenantId, recordIds);
      const refused = which === "all" ? refusalsOf(recordIds, found) : [];
      const wanted = refused.length > 0 ? [] : found.filter(({ refusal }) => refusal === undefined);
      const stated = { ...statement, clock, random };
      return { erased: await eraseRecords(transaction, tenantId, wanted, stated, append), refused };
    });
    notes?.noteErasures(result.erased.map(({ recordId }) => ({ tenantId, recordId })));
    return result;
  }

  /** Services append between the transactions; no time limit covers all of them together. */
  async function removeAllUndone(tenantId: TenantId): Promise<ReadonlySet<RecordId>> {
    const ids = new Set<RecordId>();
    // Restored data goes last: while some of it is left, an interrupted run shows as unfinished.
    for (const isBack of [false, true])
      for (let after: number | undefined = -1; after !== undefined; ) {
        const next: { isBack: boolean; after: number } = { isBack, after };
        const part = await withHeadLock(tenantId, (transaction) => removeUndone(transaction, tenantId, next));
        for (const { recordId } of part.removed) ids.add(recordId);
        after = part.after;
      }
    return ids;
  }

  /** Overwrites deleted bytes. Undefined if the database does it later. */
  const overwrite = async () => store.emptyLog?.(pause);

  const calls = {
    /**
     * Erases records permanently, all or none, in one transaction under the lock of the log's head. A leaf of kind
     * `erasure` is appended for each; its opening, search terms and stored answers are deleted; its leaf and sealed bytes
     * stay. Durable and anchored when it resolves; nothing is signed. Records that are erased already stay so and are no
     * error. Holds are checked within the transaction.
     *
     * @param recordIds 1 to `maxErasedAtOnce`, without duplicates
     * @param statement is recorded, and can never be erased
     */
    async erase(
      tenantId: TenantId,
      recordIds: readonly RecordId[],
      statement: ErasureStatement,
    ): Promise<ErasureResult> {
      const { erased, refused } = await eraseAtOnce(tenantId, recordIds, statement, "all");
      return refused.length > 0 ? { refused } : { erased, overwritten: await overwrite() };
    },

    /**
     * Repeats the erasures that must be, of one tenant or of all, in one or more transactions for each tenant; after a
     * failure, the next call continues. An erasure that only the anchor has gets a leaf with the statement; the others
     * have theirs. Records that are held, of a kind that is never erased, or without an erasure leaf are left and reported.
     */
    async reapplyErasures(tenantId: TenantId | undefined, statement: ErasureStatement): Promise<ReapplyResult> {
      const find = async () =>
        (await findUndone(store, notes?.erasures())).filter(
          (one) => tenantId === undefined || one.tenantId === tenantId,
        );
      const wanted = (await find()).filter(({ refusal }) => refusal === undefined);
      const reapplied: ReapplyResult["reapplied"][number][] = [];
      try {
        for (const [of, own] of Map.groupBy(wanted, (one) => one.tenantId)) {
          const came = own.filter(({ erasureLeafIndex }) => erasureLeafIndex !== undefined);
          const ids = came.length === 0 ? new Set() : await removeAllUndone(of);
          for (const { erasureLeafIndex, ...one } of came)
            if (erasureLeafIndex !== undefined && ids.has(one.recordId)) reapplied.push({ ...one, erasureLeafIndex });
          const noted = own.flatMap(({ recordId, erasureLeafIndex }) =>
            erasureLeafIndex === undefined ? recordId : [],
          );
          for (let at = 0; at < noted.length; at += maxErasedAtOnce) {
            // Holds may have been placed meanwhile.
            const { erased } = await eraseAtOnce(of, noted.slice(at, at + maxErasedAtOnce), statement, "some");
            for (const { recordId, leafIndex, erasureLeafIndex } of erased)
              reapplied.push({ tenantId: of, recordId, leafIndex, erasureLeafIndex, refusal: undefined });
          }
        }
        return { reapplied, left: await find(), overwritten: await overwrite() };
      } catch (error) {
        if (reapplied.length === 0) throw error;
        return { reapplied, left: [], overwritten: undefined, failure: messageOf(error) };
      }
    },

    /**
     * Places a hold. Durable when it resolves, and respected by every erasure that has not committed by then. An existing
     * hold on the same stays and is returned. `unknown` if the tenant has no log or no such record, `erased` if there is
     * nothing left to hold.
     */
    placeHold(wanted: Pick<LegalHold, "tenantId" | "recordId" | "reason">): Promise<LegalHold | "unknown" | "erased"> {
      const { tenantId, recordId } = wanted;
      return withHeadLock(tenantId, async (transaction, _, head) => {
        if (head === undefined) return "unknown";
        if (recordId !== undefined) {
          const [found] = await findErasable(transaction, tenantId, [recordId]);
          if (found === undefined) return "unknown";
          if (found.earlier !== undefined) return "erased";
        }
        const earlier = await findHold(transaction, tenantId, recordId);
        if (earlier !== undefined) return earlier;
        const hold: LegalHold = { ...wanted, placedAtMs: clock.now() };
        await insertHold(transaction, hold);
        return hold;
      });
    },

    /**
     * Ends the hold on exactly this, and appends a leaf of kind `hold_release` in the same transaction; a hold on the
     * whole tenant continues. Durable and anchored when it resolves. Resolves with the ended hold; undefined if there was
     * none, and nothing was appended.
     *
     * @param statement is recorded, and can never be erased
     */
    releaseHold(
      tenantId: TenantId,
      recordId: RecordId | undefined,
      statement: ErasureStatement,
    ): Promise<LegalHold | undefined> {
      return withHeadLock(tenantId, async (transaction, append) => {
        const hold = await releaseHold(transaction, tenantId, recordId);
        if (hold !== undefined) await append([holdReleaseRecord(hold, { ...statement, clock, random })]);
        return hold;
      });
    },

    /**
     * Appends a leaf of kind `clock_acceptance`, so that a service may start although the log's newest time is ahead of
     * the clock. Durable and anchored when it resolves; false if the time is not ahead, or was accepted already, and
     * nothing was appended.
     */
    acceptTime(tenantId: TenantId, statement: ErasureStatement): Promise<boolean> {
      return withHeadLock(tenantId, async (transaction, append, head) => {
        if (head === undefined || !isAhead(head, clock.now()) || (await isTimeAccepted(transaction, head)))
          return false;
        await append([clockAcceptanceRecord(head, { ...statement, clock, random })]);
        return true;
      });
    },

    async close(): Promise<void> {
      await store.close();
      anchor?.close();
    },
  };
  const administration = throughAll(calls, (work) => translated(store, work));
  return {
    ...administration,
    erase: async (...[tenantId, recordIds, statement]: Parameters<typeof calls.erase>) => {
      if (recordIds.length > maxErasedAtOnce) throw new RangeError(`More than ${maxErasedAtOnce} records at once.`);
      return administration.erase(tenantId, recordIds, statement);
    },
  };
}
