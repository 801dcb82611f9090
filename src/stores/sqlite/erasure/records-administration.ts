/** Erases and holds records of an SQLite store, beside a service that writes to it or without one. */
import { existsSync } from "node:fs";
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill, RecordId, TenantId } from "../../../base/ids.ts";
import { artifactKeyBytes } from "../../../ledger/artifacts/registration-index.ts";
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
import {
  inTransaction,
  openConnection as openReal,
  readStoreId,
  type SqliteConnection,
  type SqliteStatement,
} from "../connection.ts";
import { toReported } from "../errors.ts";
import { anchorConnection, SqliteAnchor } from "../log/anchor.ts";
import { isTimeAccepted, LogRows } from "../log/log-rows.ts";
import { LogWriter } from "../log/log-writer.ts";
import { requireSchema } from "../schema/migrate.ts";
import { requireUnsealed } from "../schema/seal.ts";
import { ErasableRecords } from "./erasable.ts";
import { type ErasedBatch, Eraser } from "./eraser.ts";
import { LegalHolds } from "./legal-holds.ts";
import { reapplyErasures } from "./reapply-erasures.ts";

export interface SqliteAdministrationOptions {
  /** Paths of files that must exist. */
  readonly path: string;
  readonly anchorPath: string;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Lets others write between two attempts to overwrite what was deleted. */
  readonly pause: () => Promise<void>;
  /** Takes the place of `openConnection`. */
  readonly openConnection?: typeof openReal;
}

/** How long to wait for others on the same files: a service under load lets go within a second. */
const busyTimeoutMs = 10_000;
/** Attempts to overwrite what was deleted. */
const maxAttempts = 8;

export class SqliteRecordsAdministration implements RecordsAdministration {
  readonly #connection: SqliteConnection;
  readonly #anchor: SqliteAnchor;
  readonly #machine: Pick<SqliteAdministrationOptions, "clock" | "random">;
  readonly #pause: () => Promise<void>;
  readonly #logs: LogWriter;
  readonly #eraser: Eraser;
  readonly #records: ErasableRecords;
  readonly #holds: LegalHolds;
  readonly #record: SqliteStatement;
  readonly #log: SqliteStatement;

  /** Throws `IncompatibleStoreError` where store and anchor are not what they must be, an SQLite error otherwise. */
  constructor(options: SqliteAdministrationOptions) {
    const { path, anchorPath, clock, random, pause, openConnection = openReal } = options;
    if (!existsSync(anchorPath)) throw new IncompatibleStoreError(`${anchorPath} is missing: nothing may be appended.`);
    this.#machine = { clock, random };
    this.#pause = pause;
    this.#connection = openConnection({ path, busyTimeoutMs, readOnly: false });
    let anchor: SqliteAnchor | undefined;
    try {
      requireSchema(this.#connection, path);
      requireUnsealed(this.#connection, path);
      anchor = SqliteAnchor.open({ ...anchorConnection, path: anchorPath, busyTimeoutMs }, openConnection);
      if (anchor.storeId() !== readStoreId(this.#connection))
        throw new IncompatibleStoreError(`${anchorPath} is not the anchor of this store: nothing may be appended.`);
      this.#anchor = anchor;
      // Every log that is worked on exists, so no origin is made here.
      this.#logs = new LogWriter(this.#connection, anchor, "");
      this.#eraser = new Eraser({ connection: this.#connection, logs: this.#logs, clock, random });
      this.#records = new ErasableRecords(this.#connection);
      this.#holds = new LegalHolds(this.#connection);
      this.#log = this.#connection.prepare("SELECT 1 FROM log_heads WHERE tenant_id = ?");
      this.#record = this.#connection.prepare(
        `SELECT erasure_leaf_index FROM entries LEFT JOIN erasures USING (tenant_id, record_id)
          WHERE tenant_id = ? AND record_id = ?`,
      );
    } catch (error) {
      anchor?.close();
      this.#connection.close();
      throw error;
    }
  }

  async erase(tenantId: TenantId, recordIds: readonly RecordId[], statement: ErasureStatement): Promise<ErasureResult> {
    if (recordIds.length > maxErasedAtOnce) throw new RangeError(`More than ${maxErasedAtOnce} records at once.`);
    return attempt(async () => {
      await this.#indexRegistrations(tenantId);
      const result = inTransaction(this.#connection, () => {
        const refused = this.#records.refusals(tenantId, recordIds);
        return refused.length > 0 ? { refused } : this.#eraser.erase(tenantId, recordIds, statement);
      });
      if ("refused" in result) return result;
      this.#settle(tenantId, result);
      return { erased: result.erased, overwritten: await this.#overwrite() };
    });
  }

  /** In short transactions, so that little is left for the one that erases. */
  async #indexRegistrations(tenantId: TenantId): Promise<void> {
    const { registrations } = this.#logs;
    while (!registrations.isWhole(tenantId)) {
      const key = this.#machine.random(new Uint8Array(artifactKeyBytes));
      inTransaction(this.#connection, () => registrations.catchUp(tenantId, key));
      await this.#pause();
    }
  }

  reapplyErasures(tenantId: TenantId | undefined, statement: ErasureStatement): Promise<ReapplyResult> {
    const options = {
      connection: this.#connection,
      anchor: this.#anchor,
      eraser: this.#eraser,
      settle: (of: TenantId, batch: ErasedBatch) => this.#settle(of, batch),
    };
    return attempt(async () => {
      const result = reapplyErasures(options, tenantId, statement);
      return { ...result, overwritten: await this.#overwrite() };
    });
  }

  #settle(tenantId: TenantId, { erased, appended }: ErasedBatch): void {
    if (appended !== undefined) this.#anchor.advance([appended.log]);
    this.#anchor.noteErasures(erased.map(({ recordId }) => ({ tenantId, recordId })));
  }

  placeHold(wanted: Pick<LegalHold, "tenantId" | "recordId" | "reason">): Promise<LegalHold | "unknown" | "erased"> {
    const { tenantId, recordId } = wanted;
    return attempt(() =>
      inTransaction(this.#connection, () => {
        const row = recordId === undefined ? this.#log.get(tenantId) : this.#record.get(tenantId, recordId);
        if (row === undefined) return "unknown";
        if (typeof row.erasure_leaf_index === "number") return "erased";
        const earlier = this.#holds.find(tenantId, recordId);
        if (earlier !== undefined) return earlier;
        const hold: LegalHold = { ...wanted, placedAtMs: this.#machine.clock.now() };
        this.#holds.insert(hold);
        return hold;
      }),
    );
  }

  releaseHold(
    tenantId: TenantId,
    recordId: RecordId | undefined,
    statement: ErasureStatement,
  ): Promise<LegalHold | undefined> {
    return attempt(() => {
      const released = inTransaction(this.#connection, () => {
        const hold = this.#holds.find(tenantId, recordId);
        if (hold === undefined) return undefined;
        this.#holds.release(tenantId, recordId);
        const record = holdReleaseRecord(hold, { ...statement, ...this.#machine });
        return { hold, appended: this.#logs.appendOwn(tenantId, [record], this.#machine) };
      });
      if (released !== undefined) this.#anchor.advance([released.appended.log]);
      return released?.hold;
    });
  }

  acceptTime(tenantId: TenantId, statement: ErasureStatement): Promise<boolean> {
    return attempt(() => {
      const appended = inTransaction(this.#connection, () => {
        const head = new LogRows(this.#connection).headOfTenant(tenantId);
        if (head === undefined || !isAhead(head, this.#machine.clock.now()) || isTimeAccepted(this.#connection, head))
          return undefined;
        return this.#logs.appendOwn(
          tenantId,
          [clockAcceptanceRecord(head, { ...statement, ...this.#machine })],
          this.#machine,
        );
      });
      if (appended !== undefined) this.#anchor.advance([appended.log]);
      return appended !== undefined;
    });
  }

  holds(tenantId: TenantId | undefined): Promise<readonly LegalHold[]> {
    return attempt(() => this.#holds.all(tenantId));
  }

  async #overwrite(): Promise<boolean> {
    for (let attempt = 1; !overwriteDeleted(this.#connection, busyTimeoutMs); attempt++) {
      if (attempt === maxAttempts) return false;
      await this.#pause();
    }
    return true;
  }

  async close(): Promise<void> {
    this.#connection.close();
    this.#anchor.close();
  }
}

async function attempt<Result>(work: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw toReported(error);
  }
}

/** While it waits for readers nobody else can write: short enough for a service that waits a second for its turn. */
const maxWaitMs = 100;

/**
 * Brings everything that is committed into the file and empties the write-ahead log, so that deleted bytes are in
 * neither: the file has zeros in their place. Returns false where readers of an older state, or writers, did not let go
 * in time; to be tried again after a pause then.
 *
 * @param busyTimeoutMs how long the connection waits for locks otherwise
 */
export function overwriteDeleted(connection: SqliteConnection, busyTimeoutMs: number): boolean {
  // Most of the work, which keeps nobody waiting.
  connection.exec("PRAGMA wal_checkpoint(PASSIVE)");
  connection.exec(`PRAGMA busy_timeout = ${maxWaitMs}`);
  try {
    return connection.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.busy === 0;
  } finally {
    connection.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
  }
}
