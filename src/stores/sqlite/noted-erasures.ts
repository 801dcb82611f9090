/** Erasures that the anchor notes, and how readers are kept from erased records. */
import type { NotedErasure } from "../../ledger/ports/records-administration.ts";
import { unerasable } from "../../ledger/record/operator-records.ts";
import { readAnchor, type SqliteAnchor } from "../files/anchor.ts";
import { readStoreId, type SqliteConnection } from "../files/connection.ts";
import type { Queries } from "../sql/queries.ts";
import { readLeaf } from "../sql/stored-record.ts";

/**
 * Reads the anchor's notes; none if the anchor is missing, or another store's. Throws an SQLite error if the file
 * cannot be read.
 * @param connection to the store
 */
export function readNotedErasures(connection: SqliteConnection, anchorPath: string): readonly NotedErasure[] {
  using anchor = readAnchor(anchorPath);
  return anchor?.storeId() === readStoreId(connection) ? anchor.erasures() : [];
}

/** Adds the store's erasures to the anchor. */
export async function noteErasures(queries: Queries, anchor: SqliteAnchor): Promise<void> {
  const { rows } = await queries.query('SELECT tenant_id AS "tenantId", record_id AS "recordId" FROM erasures', []);
  anchor.noteErasures(rows as unknown as readonly NotedErasure[]);
}

/**
 * Hides the openings of erased records on this connection alone, without a write to any file: those that the store
 * notes, and those of the anchor. `openings` is then a view. A note about a record of a kind that is never erased hides
 * nothing.
 * @param connection that only reads
 */
export function hideErased(connection: SqliteConnection, noted: readonly NotedErasure[]): void {
  const isErased = (table: string) =>
    `EXISTS (SELECT 1 FROM ${table} AS erased
              WHERE erased.tenant_id = kept.tenant_id AND erased.record_id = kept.record_id)`;
  const notYet = `AND NOT ${isErased("main.erasures")}`;
  connection.exec(`
    CREATE TEMP TABLE noted_erasures (
      tenant_id TEXT NOT NULL,
      record_id TEXT NOT NULL,
      PRIMARY KEY (tenant_id, record_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TEMP VIEW openings AS
      SELECT tenant_id, record_id, opening FROM main.openings AS kept
       WHERE NOT ${isErased("temp.noted_erasures")} ${notYet};
  `);
  const entry = connection.prepare(
    `SELECT leaf_index, leaf FROM entries AS kept WHERE tenant_id = ? AND record_id = ? ${notYet}`,
  );
  const hide = connection.prepare("INSERT INTO temp.noted_erasures (tenant_id, record_id) VALUES (?, ?)");
  for (const { tenantId, recordId } of noted) {
    const row = entry.get(tenantId, recordId);
    if (row === undefined) continue;
    const { kind } = readLeaf(`The leaf ${row.leaf_index}`, row.leaf as Uint8Array);
    if (unerasable[kind] === undefined) hide.run(tenantId, recordId);
  }
}

/** Finds a registration of an artifact that is not relied on, and that only the anchor notes as erased. */
export const notedRegistrations = `SELECT artifact, leaf_index AS "leafIndex", record_id AS "recordId", leaf, sealed, NULL AS opening
    FROM temp.noted_erasures
    JOIN entries USING (tenant_id, record_id)
    JOIN registered_artifacts USING (tenant_id, leaf_index)
   WHERE tenant_id = $1 AND artifact = $2 AND relied_on = 0 LIMIT 1`;
