/** Erases records, inside a transaction that the caller holds. */
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill, RecordId, TenantId } from "../../../base/ids.ts";
import { artifactKeyBytes } from "../../../ledger/artifacts/registration-index.ts";
import type { ErasureStatement } from "../../../ledger/ports/record.ts";
import type { ErasedRecord } from "../../../ledger/ports/records-administration.ts";
import { type ErasureTarget, erasureRecord } from "../../../ledger/record/operator-records.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import type { AppendedBatch, LogWriter } from "../log/log-writer.ts";
import { SearchSegments } from "../search/search-segments.ts";
import { ErasableRecords, type FoundRecord } from "./erasable.ts";

export interface EraserOptions {
  readonly connection: SqliteConnection;
  /** Appends in the same transaction; every log exists, so it opens none. */
  readonly logs: LogWriter;
  readonly clock: Clock;
  readonly random: RandomFill;
}

/** What was done, true once it is committed. */
export interface ErasedBatch {
  /** In the order asked for. */
  readonly erased: readonly ErasedRecord[];
  /** Undefined where all were erased before. */
  readonly appended: AppendedBatch | undefined;
}

export class Eraser {
  readonly #options: EraserOptions;
  readonly #records: ErasableRecords;
  readonly #remains: RecordRemains;
  readonly #note: SqliteStatement;

  constructor(options: EraserOptions) {
    this.#options = options;
    const { connection } = options;
    this.#records = new ErasableRecords(connection);
    this.#remains = new RecordRemains(connection);
    this.#note = connection.prepare(
      "INSERT INTO erasures (tenant_id, record_id, leaf_index, erasure_leaf_index) VALUES (?, ?, ?, ?)",
    );
  }

  /** Erases those that were not. All of them must be the tenant's; holds and kinds are the caller's to ask for. */
  erase(tenantId: TenantId, recordIds: readonly RecordId[], statement: ErasureStatement): ErasedBatch {
    // A registration that the index has not got yet could not be told of any more.
    this.#makeWhole(tenantId);
    const found = recordIds.map((recordId) => this.#records.find(tenantId, recordId));
    const targets = found.flatMap((one) => (one === undefined || one.earlier !== undefined ? [] : [one]));
    const appended = targets.length === 0 ? undefined : this.#append(tenantId, targets, statement);
    targets.forEach(({ recordId, leafIndex }, position) => {
      const erasure = appended?.result.results[position];
      if (typeof erasure !== "object") throw new Error("The erasure has no place in the log.");
      this.#note.run(tenantId, recordId, leafIndex, erasure.leafIndex);
    });
    const fresh = new Set(targets.map(({ recordId }) => recordId));
    const erased = recordIds.flatMap((recordId) => {
      const { earlier } = this.#records.find(tenantId, recordId) ?? {};
      return earlier === undefined ? [] : [{ ...earlier, wasErased: !fresh.has(recordId) }];
    });
    return { erased, appended };
  }

  #makeWhole(tenantId: TenantId): void {
    const { logs, random } = this.#options;
    while (!logs.registrations.isWhole(tenantId))
      logs.registrations.catchUp(tenantId, random(new Uint8Array(artifactKeyBytes)));
  }

  #append(tenantId: TenantId, targets: readonly FoundRecord[], statement: ErasureStatement): AppendedBatch {
    const { logs, clock, random } = this.#options;
    const records = targets.map(({ recordId, leafIndex, kind }) => {
      const idempotencyRecords = this.#remains.remove(tenantId, recordId, leafIndex);
      const target: ErasureTarget = { recordId, leafIndex, kind, idempotencyRecords };
      return erasureRecord(tenantId, target, { ...statement, clock, random });
    });
    return logs.appendOwn(tenantId, records, { clock, random });
  }
}

/** What of a record must go when it is erased. Its leaf and its sealed bytes stay: the first names nobody, the others nobody can open. */
export class RecordRemains {
  readonly #segments: SearchSegments;
  readonly #opening: SqliteStatement;
  readonly #answers: SqliteStatement;
  readonly #registrations: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#segments = new SearchSegments(connection);
    this.#opening = connection.prepare("DELETE FROM openings WHERE tenant_id = ? AND record_id = ?");
    // The idempotency scope outlives the record, so that a retry is refused rather than recorded again.
    this.#answers = connection.prepare(
      "UPDATE kept_answers SET sealed = NULL WHERE tenant_id = ? AND leaf_index = ? AND sealed IS NOT NULL",
    );
    // Whether it was relied on or not: that something is gone is what its artifact is known for from now on.
    this.#registrations = connection.prepare(
      "UPDATE registered_artifacts SET relied_on = 1 WHERE tenant_id = ? AND leaf_index = ?",
    );
  }

  /** Removes all of it, inside a transaction that the caller holds. Returns how many kept answers there were. */
  remove(tenantId: TenantId, recordId: RecordId, leafIndex: number): number {
    this.#opening.run(tenantId, recordId);
    this.#segments.remove(tenantId, leafIndex);
    this.#registrations.run(tenantId, leafIndex);
    return Number(this.#answers.run(tenantId, leafIndex).changes);
  }
}
