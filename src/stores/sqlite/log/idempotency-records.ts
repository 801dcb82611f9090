/** Idempotency records in SQLite (table `kept_answers`). */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import type { CommittedRecord, NotAppended } from "../../../ledger/ports/store.ts";
import {
  idempotencyTtlMs,
  idempotentResult,
  purgedPerInsert,
  sealIdempotencyRecord,
} from "../../../ledger/record/idempotency-record.ts";
import type { EncodedIdempotency } from "../../../ledger/record/record.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import type { LogRows } from "./log-rows.ts";

/** Position and opening of the record that an idempotency record belongs to. */
export interface RecordPosition {
  readonly leafIndex: number;
  readonly treeSize: number;
  readonly opening: Uint8Array;
}

export class IdempotencyRecords {
  readonly #rows: LogRows;
  readonly #isNoted: (tenantId: TenantId, recordId: RecordId) => boolean;
  readonly #find: SqliteStatement;
  readonly #keep: SqliteStatement;
  readonly #purge: SqliteStatement;

  /** @param isNoted whether the store's anchor notes that the record was erased */
  constructor(
    connection: SqliteConnection,
    rows: LogRows,
    isNoted: (tenantId: TenantId, recordId: RecordId) => boolean,
  ) {
    this.#rows = rows;
    this.#isNoted = isNoted;
    this.#find = connection.prepare(
      `SELECT kept_answers.leaf_index, tree_size, kept_answers.sealed AS answer, record_id, leaf,
              entries.sealed AS record, opening, erasure_leaf_index
         FROM kept_answers
         JOIN entries USING (tenant_id, leaf_index)
         LEFT JOIN openings USING (tenant_id, record_id)
         LEFT JOIN erasures USING (tenant_id, record_id)
        WHERE tenant_id = ? AND scope = ?`,
    );
    this.#keep = connection.prepare(
      `INSERT INTO kept_answers (tenant_id, scope, leaf_index, tree_size, kept_at_ms, sealed)
       VALUES (?, ?, ?, ?, ?, ?)`,
    );
    this.#purge = connection.prepare(
      `DELETE FROM kept_answers WHERE rowid IN
         (SELECT rowid FROM kept_answers WHERE tenant_id = ? AND kept_at_ms < ? LIMIT ?)`,
    );
  }

  /** The result of the first call with this scope; undefined where there was none. */
  find(tenantId: TenantId, idempotency: EncodedIdempotency): CommittedRecord | NotAppended | undefined {
    const row = this.#find.get(tenantId, Buffer.from(idempotency.scope, "hex"));
    if (row === undefined) return undefined;
    // What was erased stays so, also where a backup has brought it back.
    const recordId = row.record_id as RecordId;
    if (row.erasure_leaf_index !== null || this.#isNoted(tenantId, recordId)) return "erased";
    const stored = {
      leafIndex: row.leaf_index as number,
      treeSize: row.tree_size as number,
      answer: row.answer as Uint8Array | null,
      opening: row.opening as Uint8Array | null,
      recordId,
      leaf: row.leaf as Uint8Array,
      record: row.record as Uint8Array,
    };
    return idempotentResult(stored, idempotency, (size) => this.#rows.tree(tenantId, size));
  }

  /** Deletes some expired rows, where so many are going to be added. */
  makeRoom(tenantId: TenantId, rows: number, nowMs: number): void {
    if (rows > 0) this.#purge.run(tenantId, nowMs - idempotencyTtlMs, purgedPerInsert * rows);
  }

  /** Stores the answer to a call. */
  keep(tenantId: TenantId, idempotency: EncodedIdempotency, position: RecordPosition, nowMs: number): void {
    const sealed = sealIdempotencyRecord(idempotency, position.opening);
    const scope = Buffer.from(idempotency.scope, "hex");
    this.#keep.run(tenantId, scope, position.leafIndex, position.treeSize, nowMs, sealed);
  }
}
