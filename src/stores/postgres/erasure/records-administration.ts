/** Erases and holds records of a PostgreSQL store, beside the services that write to it. */
import { resolve } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill, RecordId, TenantId } from "../../../base/ids.ts";
import { systemTimers } from "../../../base/timers.ts";
import type { LogAnchor } from "../../../ledger/ports/anchor.ts";
import type { ErasureStatement } from "../../../ledger/ports/record.ts";
import {
  type ErasureResult,
  type LegalHold,
  maxErasedAtOnce,
  type ReapplyResult,
  type RecordsAdministration,
} from "../../../ledger/ports/records-administration.ts";
import { clockAcceptanceRecord, holdReleaseRecord } from "../../../ledger/record/operator-records.ts";
import { IncompatibleStoreError } from "../../errors.ts";
import { isAhead } from "../../store-checks.ts";
import type { ConnectionSettings } from "../connection/client-options.ts";
import { toError } from "../connection/errors.ts";
import { ConnectionPool } from "../connection/pool.ts";
import { findAnchorProblems, openFileAnchor } from "../log/anchor.ts";
import { headOfTenant, isTimeAccepted } from "../log/log-rows.ts";
import { LogWriter } from "../log/log-writer.ts";
import { RegistrationIndex } from "../registrations/registration-index.ts";
import { requireCompleteStore, requireSchema } from "../schema/migrate.ts";
import { eraseRecords, findErasable, refusalsOf } from "./eraser.ts";
import { allHolds, findHold, insertHold, releaseHold } from "./legal-holds.ts";
import { findUndone, removeUndone } from "./undone-erasures.ts";

const timeoutMs = 10_000;

export interface PostgresAdministrationOptions extends ConnectionSettings {
  /** Path of the anchor; undefined where there is none. */
  readonly anchorPath: string | undefined;
  readonly clock: Clock;
  readonly random: RandomFill;
}

export class PostgresRecordsAdministration implements RecordsAdministration {
  readonly #pool: ConnectionPool;
  readonly #anchor: LogAnchor | undefined;
  readonly #logs: LogWriter;
  readonly #machine: Pick<PostgresAdministrationOptions, "clock" | "random">;

  private constructor(options: PostgresAdministrationOptions) {
    const { anchorPath, clock, random } = options;
    this.#machine = { clock, random };
    this.#pool = new ConnectionPool({ ...options, poolSize: 2, timeoutMs, timers: systemTimers });
    this.#anchor = anchorPath === undefined ? undefined : openFileAnchor(resolve(anchorPath));
    // Every log that something is erased from exists, so no origin is made here.
    const registrations = new RegistrationIndex();
    this.#logs = new LogWriter({
      pool: this.#pool,
      anchor: this.#anchor,
      originPrefix: "",
      clock,
      random,
      registrations,
      // Few leaves: services make segments of them.
    });
  }

  /**
   * Rejects with `IncompatibleStoreError` where schema or anchor are not what they must be, with an error of the driver
   * where the database cannot be reached.
   */
  static async open(options: PostgresAdministrationOptions): Promise<PostgresRecordsAdministration> {
    const administration = new PostgresRecordsAdministration(options);
    try {
      await requireSchema(administration.#pool);
      await requireCompleteStore(administration.#pool);
      const problems =
        administration.#anchor && (await findAnchorProblems(administration.#pool, administration.#anchor));
      const [first] = (problems ?? []).filter(({ tenantId }) => tenantId === undefined);
      if (first !== undefined) throw new IncompatibleStoreError(`${first.message}: nothing may be appended.`);
      return administration;
    } catch (error) {
      await administration.close();
      throw error;
    }
  }

  /** The server overwrites deleted bytes when it cleans up and reuses their place: whether it has, cannot be told. */
  async erase(tenantId: TenantId, recordIds: readonly RecordId[], statement: ErasureStatement): Promise<ErasureResult> {
    if (recordIds.length > maxErasedAtOnce) throw new RangeError(`More than ${maxErasedAtOnce} records at once.`);
    const machine = { ...statement, ...this.#machine };
    return translated(() =>
      this.#logs.withHeadLock(tenantId, async (connection, append): Promise<ErasureResult> => {
        const found = await findErasable(connection, tenantId, recordIds);
        const refused = await refusalsOf(connection, tenantId, recordIds, found);
        if (refused.length > 0) return { refused };
        // In the order of the call, which their leaves get too: the database has none.
        const wanted = [...new Set(recordIds)].flatMap((recordId) => found.get(recordId) ?? []);
        const fresh = wanted.filter(({ earlier }) => earlier === undefined);
        await eraseRecords(connection, tenantId, fresh, machine, append);
        const now = await findErasable(connection, tenantId, recordIds);
        const erased = recordIds.flatMap((recordId) => {
          const done = now.get(recordId)?.earlier;
          return done === undefined ? [] : [{ ...done, wasErased: found.get(recordId)?.earlier !== undefined }];
        });
        return { erased, overwritten: undefined };
      }),
    );
  }

  /** Beside PostgreSQL no anchor notes erasures, so each has its leaf already. */
  reapplyErasures(tenantId: TenantId | undefined): Promise<ReapplyResult> {
    return translated(async () => {
      const find = async () =>
        (await findUndone(this.#pool)).filter((one) => tenantId === undefined || one.tenantId === tenantId);
      const wanted = (await find()).filter(({ refusal }) => refusal === undefined);
      const reapplied: ReapplyResult["reapplied"][number][] = [];
      for (const [of, came] of Map.groupBy(wanted, (one) => one.tenantId)) {
        const ids = new Set<RecordId>();
        // Services append between the transactions, and no time limit has to hold for all of them together.
        // What came back goes last: as long as some of it is left, a run that was interrupted is seen to be unfinished.
        for (const isBack of [false, true])
          for (let after: number | undefined = -1; after !== undefined; ) {
            const next: { isBack: boolean; after: number } = { isBack, after };
            const part = await this.#logs.withHeadLock(of, (connection) => removeUndone(connection, of, next));
            for (const { recordId } of part.removed) ids.add(recordId);
            after = part.after;
          }
        for (const { erasureLeafIndex, ...one } of came)
          if (erasureLeafIndex !== undefined && ids.has(one.recordId)) reapplied.push({ ...one, erasureLeafIndex });
      }
      return { reapplied, left: await find(), overwritten: undefined };
    });
  }

  placeHold(wanted: Pick<LegalHold, "tenantId" | "recordId" | "reason">): Promise<LegalHold | "unknown" | "erased"> {
    const { tenantId, recordId } = wanted;
    return translated(() =>
      this.#logs.withHeadLock(tenantId, async (connection) => {
        if ((await headOfTenant(connection, tenantId)) === undefined) return "unknown";
        if (recordId !== undefined) {
          const found = (await findErasable(connection, tenantId, [recordId])).get(recordId);
          if (found === undefined) return "unknown";
          if (found.earlier !== undefined) return "erased";
        }
        const earlier = await findHold(connection, tenantId, recordId);
        if (earlier !== undefined) return earlier;
        const hold: LegalHold = { ...wanted, placedAtMs: this.#machine.clock.now() };
        await insertHold(connection, hold);
        return hold;
      }),
    );
  }

  releaseHold(
    tenantId: TenantId,
    recordId: RecordId | undefined,
    statement: ErasureStatement,
  ): Promise<LegalHold | undefined> {
    return translated(() =>
      this.#logs.withHeadLock(tenantId, async (connection, append) => {
        const hold = await releaseHold(connection, tenantId, recordId);
        if (hold !== undefined) await append([holdReleaseRecord(hold, { ...statement, ...this.#machine })]);
        return hold;
      }),
    );
  }

  acceptTime(tenantId: TenantId, statement: ErasureStatement): Promise<boolean> {
    return translated(() =>
      this.#logs.withHeadLock(tenantId, async (connection, append) => {
        const head = await headOfTenant(connection, tenantId);
        if (head === undefined || !isAhead(head, this.#machine.clock.now()) || (await isTimeAccepted(connection, head)))
          return false;
        await append([clockAcceptanceRecord(head, { ...statement, ...this.#machine })]);
        return true;
      }),
    );
  }

  holds(tenantId: TenantId | undefined): Promise<readonly LegalHold[]> {
    return translated(() => allHolds(this.#pool, tenantId));
  }

  async close(): Promise<void> {
    await this.#pool.close();
    await this.#anchor?.close();
  }
}

async function translated<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw toError(error);
  }
}
