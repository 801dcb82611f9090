/** Answers that are kept so that a call may come again. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import { answerFor, keptText } from "../../ledger/kept-answer.ts";
import { parseLeaf } from "../../ledger/leaf.ts";
import { placeRecord } from "../../ledger/placing.ts";
import type { Idempotency } from "../../ledger/ports.ts";
import { open, openAnswer, sealAnswer } from "../../ledger/sealing.ts";
import { type PlacedRecord, type Unplaced, UnsoundLogError } from "../../ledger/store.ts";
import type { SqliteConnection, SqliteStatement } from "./connection.ts";
import type { LogRows } from "./log-rows.ts";

/** For how long a retry is recognized, at least. */
const keepMs = 24 * 60 * 60 * 1_000;
/** Old answers that go for each new one: more than one, so that they do not pile up; few, so that no write waits. */
const purgedPerKept = 4;

/** Where a new answer's record stands. */
export interface KeptPlace {
  readonly leafIndex: number;
  readonly treeSize: number;
  readonly opening: Uint8Array;
}

export class KeptAnswers {
  readonly #rows: LogRows;
  readonly #find: SqliteStatement;
  readonly #keep: SqliteStatement;
  readonly #purge: SqliteStatement;

  constructor(connection: SqliteConnection, rows: LogRows) {
    this.#rows = rows;
    this.#find = connection.prepare(
      `SELECT leaf_index, tree_size, kept_answers.sealed AS answer, record_id, leaf, entries.sealed AS record, opening
         FROM kept_answers
         JOIN entries USING (tenant_id, leaf_index)
         LEFT JOIN openings USING (tenant_id, record_id)
        WHERE tenant_id = ? AND scope = ?`,
    );
    this.#keep = connection.prepare(
      `INSERT INTO kept_answers (tenant_id, scope, leaf_index, tree_size, kept_at_ms, sealed)
       VALUES (?, ?, ?, ?, ?, ?)`,
    );
    this.#purge = connection.prepare(
      `DELETE FROM kept_answers WHERE rowid IN
         (SELECT rowid FROM kept_answers WHERE tenant_id = ? AND kept_at_ms < ? LIMIT ${purgedPerKept})`,
    );
  }

  /** The record that the scope stands for, as it was answered; undefined where the scope is free. */
  find(tenantId: TenantId, { scope, payloadDigest }: Idempotency): PlacedRecord | Unplaced | undefined {
    const row = this.#find.get(tenantId, Buffer.from(scope, "hex"));
    if (row === undefined) return undefined;
    if (row.opening === null || row.answer === null) return "erased";
    try {
      const opening = row.opening as Uint8Array;
      const kept = Buffer.from(openAnswer(row.answer as Uint8Array, opening)).toString("utf8");
      const keptAnswer = answerFor(payloadDigest, kept);
      return keptAnswer === undefined ? "conflict" : { ...this.#place(tenantId, row, opening), keptAnswer };
    } catch (cause) {
      throw new UnsoundLogError(`the answer kept with leaf ${row.leaf_index} does not verify`, { cause });
    }
  }

  /** Keeps the answer to a call whose record stands at this place, and lets some go that are old enough. */
  keep(tenantId: TenantId, { scope, payloadDigest, answer }: Idempotency, place: KeptPlace, nowMs: number): void {
    this.#purge.run(tenantId, nowMs - keepMs);
    const text = Buffer.from(keptText(payloadDigest, JSON.stringify(answer)), "utf8");
    const sealed = sealAnswer(text, place.opening);
    this.#keep.run(tenantId, Buffer.from(scope, "hex"), place.leafIndex, place.treeSize, nowMs, sealed);
  }

  /** The receipt of then: the proof is in the tree that the first answer spoke of. */
  #place(tenantId: TenantId, row: Record<string, unknown>, opening: Uint8Array): PlacedRecord {
    const leaf = row.leaf as Uint8Array;
    const { commitment, recorded_at: recordedAt } = parseLeaf(leaf);
    const record = open(row.record as Uint8Array, opening, commitment);
    const tree = this.#rows.tree(tenantId, row.tree_size as number);
    const logged = {
      recordId: row.record_id as RecordId,
      leafIndex: row.leaf_index as number,
      recordedAt,
      leaf,
      opening,
      record,
    };
    return placeRecord(logged, tree, { size: tree.size, root: tree.root() });
  }
}
