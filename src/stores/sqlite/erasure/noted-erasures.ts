/** Erasures that the anchor of a store notes. */
import { existsSync } from "node:fs";
import { openConnection, type SqliteConnection } from "../connection.ts";
import { type ErasureNote, SqliteAnchor } from "../log/anchor.ts";
import { readStoreId } from "../store-identity.ts";

const busyTimeoutMs = 10_000;

/**
 * Reads what the anchor notes; nothing where it is missing, or is not this store's own. Throws an SQLite error where
 * the file cannot be read.
 * @param connection to the store
 */
export function readNotedErasures(
  connection: SqliteConnection,
  anchorPath: string,
  open = openConnection,
): readonly ErasureNote[] {
  if (!existsSync(anchorPath)) return [];
  const anchor = new SqliteAnchor(open({ path: anchorPath, readOnly: true, busyTimeoutMs }));
  try {
    return anchor.storeId() === readStoreId(connection) ? [...anchor.erasures()] : [];
  } finally {
    anchor.close();
  }
}

/** Brings the anchor up to the erasures of its store. */
export function noteErasures(connection: SqliteConnection, anchor: SqliteAnchor): void {
  anchor.noteErasures(recordedErasures(connection));
}

function* recordedErasures(connection: SqliteConnection): Generator<ErasureNote> {
  for (const row of connection.prepare("SELECT tenant_id, record_id FROM erasures").iterate())
    yield { tenantId: row.tenant_id, recordId: row.record_id } as ErasureNote;
}
