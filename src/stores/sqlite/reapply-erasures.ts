/** Erases again what a backup brought back of records that were erased. */
import { existsSync } from "node:fs";
import type { Clock } from "../../base/clock.ts";
import type { RandomFill, RecordId, TenantId } from "../../base/ids.ts";
import { type ErasureNote, SqliteAnchor } from "./anchor.ts";
import { openConnection, type SqliteConnection } from "./connection.ts";
import { Eraser } from "./eraser.ts";
import { LogWriter } from "./log-writer.ts";
import { overwriteDeleted } from "./overwrite.ts";
import { RecordRemains } from "./record-remains.ts";
import { inTransaction } from "./transaction.ts";

const busyTimeoutMs = 10_000;

interface ReapplyMachine {
  readonly clock: Clock;
  readonly random: RandomFill;
}

/** A record that was erased and is, or may be, there again. */
interface ReturnedRecord extends ErasureNote {
  readonly leafIndex: number;
  /** False where only the anchor knows of the erasure: the store is an older copy, and its log has no leaf for it. */
  readonly isRecorded: boolean;
}

/**
 * Records that were erased and have come back. Where anything of a tenant has, all that were erased of it are given:
 * what they are found by may be back though they cannot be opened.
 *
 * @param noted erasures that the anchor knows of
 */
function returnedRecords(connection: SqliteConnection, noted: Iterable<ErasureNote>): readonly ReturnedRecord[] {
  const recorded = connection
    .prepare(
      `SELECT tenant_id, record_id, leaf_index FROM erasures WHERE tenant_id IN
         (SELECT tenant_id FROM erasures AS e
           WHERE EXISTS (SELECT 1 FROM openings WHERE tenant_id = e.tenant_id AND record_id = e.record_id)
              OR EXISTS (SELECT 1 FROM kept_answers
                          WHERE tenant_id = e.tenant_id AND leaf_index = e.leaf_index AND sealed IS NOT NULL))`,
    )
    .iterate();
  const unrecorded = connection.prepare(
    `SELECT tenant_id, record_id, entries.leaf_index
       FROM entries LEFT JOIN erasures USING (tenant_id, record_id)
      WHERE tenant_id = ? AND record_id = ? AND erasure_leaf_index IS NULL`,
  );
  const returned = [...recorded].map((row) => returnedOf(row, true));
  for (const { tenantId, recordId } of noted) {
    const row = unrecorded.get(tenantId, recordId);
    if (row !== undefined) returned.push(returnedOf(row, false));
  }
  return returned;
}

/** Removes them, inside a transaction that the caller holds. Says nothing in the log. */
function removeReturned(connection: SqliteConnection, returned: readonly ReturnedRecord[]): void {
  const remains = new RecordRemains(connection);
  for (const { tenantId, recordId, leafIndex } of returned) remains.remove(tenantId, recordId, leafIndex);
}

/**
 * Erases what came back, inside a transaction that the caller holds, on a store that agrees with its anchor. An erasure
 * that only the anchor knows of gets a new leaf. Holds are of no account: it has happened already. Returns whether
 * anything had come back.
 */
export function eraseReturned(connection: SqliteConnection, anchor: SqliteAnchor, machine: ReapplyMachine): boolean {
  const returned = returnedRecords(connection, anchor.erasures());
  if (returned.length === 0) return false;
  const { recorded = [], unrecorded = [] } = Object.groupBy(returned, ({ isRecorded }) =>
    isRecorded ? "recorded" : "unrecorded",
  );
  removeReturned(connection, recorded);
  const eraser = new Eraser({ connection, logs: new LogWriter(connection, anchor, ""), ...machine });
  for (const [tenantId, records] of Map.groupBy(unrecorded, (record) => record.tenantId)) {
    const recordIds = records.map(({ recordId }) => recordId);
    eraser.erase(tenantId, recordIds, "erased before the store was put back to an older copy");
  }
  return true;
}

/** Brings the anchor up to the erasures of its store. */
export function noteErasures(connection: SqliteConnection, anchor: SqliteAnchor): void {
  anchor.noteErasures(recordedErasures(connection));
}

/**
 * Removes what came back from a store that is about to be read, beside a running service or without one. Writes only
 * where there is something to remove. Throws an SQLite error where that cannot be done: then nothing may be shown.
 */
export function reapplyErasures({ path, anchorPath }: { readonly path: string; readonly anchorPath: string }): void {
  const noted = readNoted(anchorPath);
  const isClean = withConnection(path, true, (connection) => {
    const table = connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'erasures'").get();
    return table === undefined || returnedRecords(connection, noted).length === 0;
  });
  if (isClean) return;
  withConnection(path, false, (connection) => {
    inTransaction(connection, () => removeReturned(connection, returnedRecords(connection, noted)));
    overwriteDeleted(connection, busyTimeoutMs);
  });
}

function* recordedErasures(connection: SqliteConnection): Generator<ErasureNote> {
  for (const row of connection.prepare("SELECT tenant_id, record_id FROM erasures").iterate())
    yield { tenantId: row.tenant_id as TenantId, recordId: row.record_id as RecordId };
}

function readNoted(anchorPath: string): readonly ErasureNote[] {
  if (!existsSync(anchorPath)) return [];
  return withConnection(anchorPath, true, (connection) => [...new SqliteAnchor(connection).erasures()]);
}

function withConnection<Result>(
  path: string,
  readOnly: boolean,
  use: (connection: SqliteConnection) => Result,
): Result {
  const connection = openConnection({ path, readOnly, busyTimeoutMs });
  try {
    return use(connection);
  } finally {
    connection.close();
  }
}

function returnedOf(row: Record<string, unknown>, isRecorded: boolean): ReturnedRecord {
  return {
    tenantId: row.tenant_id as TenantId,
    recordId: row.record_id as RecordId,
    leafIndex: row.leaf_index as number,
    isRecorded,
  };
}
