/** The schema as it grew. Forward only: a migration that was released is never changed, another is added. */

/** Marks the file as ours (`PRAGMA application_id`), so that another program's database is never written to. */
export const applicationId = 0x53_50_41_31;

/** One step of the schema. Its version is its position, from 1. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
}

/**
 * Every key starts with the tenant. Entries are immutable; openings stand apart from them, because erasing a record
 * deletes its opening and nothing else, and because backups of the two may be kept apart.
 */
export const migrations: readonly Migration[] = [
  {
    name: "logs",
    sql: `
      CREATE TABLE store (
        singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
        store_id TEXT NOT NULL,
        probed_at_ms INTEGER NOT NULL,
        probe BLOB NOT NULL
      ) STRICT;

      CREATE TABLE log_heads (
        tenant_id TEXT NOT NULL PRIMARY KEY,
        origin TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL CHECK (size > 0),
        last_recorded_at_ms INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;

      CREATE TABLE entries (
        tenant_id TEXT NOT NULL,
        leaf_index INTEGER NOT NULL CHECK (leaf_index >= 0),
        record_id TEXT NOT NULL,
        leaf BLOB NOT NULL,
        sealed BLOB NOT NULL,
        PRIMARY KEY (tenant_id, leaf_index),
        UNIQUE (tenant_id, record_id)
      ) STRICT;

      CREATE TABLE openings (
        tenant_id TEXT NOT NULL,
        record_id TEXT NOT NULL,
        opening BLOB NOT NULL CHECK (length(opening) = 32),
        PRIMARY KEY (tenant_id, record_id)
      ) STRICT, WITHOUT ROWID;

      CREATE TABLE policy_revisions (
        revision TEXT NOT NULL PRIMARY KEY,
        content TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
    `,
  },
];
