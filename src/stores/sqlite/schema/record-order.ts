/**
 * The two tables that find a row by its record, so that what is recorded at about the same time stands together in their
 * indexes, whoever's it is: ids of records begin with a time. Where the tenant comes first, as in the schema that was
 * released, every tenant of a commit has a page of its own in both of them.
 *
 * The schema's version stays: names, columns and what must be unique are the same, and so every statement of the version
 * before finds what it found. Its `store copy` alone takes longer: it goes through all openings once for each tenant.
 */
import type { SqliteConnection } from "../connection.ts";
import { addSegments } from "../search/search-segments.ts";

const tables = {
  entries: `
    tenant_id TEXT NOT NULL,
    leaf_index INTEGER NOT NULL CHECK (leaf_index >= 0),
    record_id TEXT NOT NULL,
    leaf BLOB NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (tenant_id, leaf_index),
    UNIQUE (record_id, tenant_id)`,
  openings: `
    tenant_id TEXT NOT NULL,
    record_id TEXT NOT NULL,
    opening BLOB NOT NULL CHECK (length(opening) = 32),
    PRIMARY KEY (record_id, tenant_id)`,
};

/** Gives a store of the newest schema that has no record yet the order by record. Inside a transaction. */
export function orderEmptyByRecord(connection: SqliteConnection): void {
  if (connection.prepare("SELECT 1 FROM entries LIMIT 1").get() === undefined) orderByRecord(connection);
}

/**
 * Gives a store of the newest schema the order by record, where it has not got it: writes both tables anew. Inside a
 * transaction. Returns false where there was nothing to do.
 */
export function orderByRecord(connection: SqliteConnection): boolean {
  if (isOrderedByRecord(connection)) return false;
  // A table that a trigger speaks of cannot be replaced.
  connection.exec("DROP TRIGGER IF EXISTS search_segments_of_erased");
  for (const [table, columns] of Object.entries(tables)) {
    connection.exec(`
      CREATE TABLE ${table}_by_record (${columns}) STRICT;
      INSERT INTO ${table}_by_record SELECT * FROM ${table} ORDER BY rowid;
    `);
    // To overwrite what is dropped takes the size of the table in memory and in the write-ahead log. Entries are sealed for
    // good, and their pages may keep them; an opening that is erased later must not be left in one.
    connection.exec(`PRAGMA secure_delete = ${table === "entries" ? "OFF" : "ON"}`);
    try {
      connection.exec(`DROP TABLE ${table}`);
    } finally {
      connection.exec("PRAGMA secure_delete = ON");
    }
    connection.exec(`ALTER TABLE ${table}_by_record RENAME TO ${table}`);
  }
  addSegments(connection);
  return true;
}

/** Whether an index of a store's records begins with the record. */
export function isOrderedByRecord(connection: SqliteConnection): boolean {
  const index = connection
    .prepare(
      `SELECT 1 FROM pragma_index_list('openings') AS list JOIN pragma_index_info(list.name) AS part
        WHERE part.seqno = 0 AND part.name = 'record_id'`,
    )
    .get();
  return index !== undefined;
}
