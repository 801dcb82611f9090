/** The schema, as one table of steps. */
import { type Migration, sharedSchema } from "../sql/schema.ts";
import { markOf } from "./wal-binding.ts";

/** Marks the file as ours (`PRAGMA application_id`), so that another program's database is never written to. */
export const applicationId = 0x53_50_41_31;

/**
 * Tables with numbered rows. A tree ordered by a key moves rows between pages and may leave copies behind, which no
 * deletion overwrites; rows that are only appended stay in place.
 */
const numbered: ReadonlySet<string> = new Set(["entries", "openings", "tiles", "kept_answers", "search_segments"]);

const types = { text: "TEXT", bytea: "BLOB", bigint: "INTEGER", integer: "INTEGER" };

/** Record ids begin with a time, so that records of one commit are adjacent in an index that begins with the id. */
const shared = sharedSchema("(record_id, tenant_id)")
  .replaceAll(/^( +\w+) (text|bytea|bigint|integer)\b/gm, (_, column: string, type: keyof typeof types) => {
    return `${column} ${types[type]}`;
  })
  .replaceAll(/CREATE TABLE (\w+) (\([^;]*?\n +\));/g, (_, table: string, columns: string) => {
    return `CREATE TABLE ${table} ${columns} STRICT${numbered.has(table) ? "" : ", WITHOUT ROWID"};`;
  });
export const migrations: readonly Migration[] = [
  {
    name: "baseline",
    sql: `
    CREATE TABLE store (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      store_id TEXT NOT NULL,
      probed_at_ms INTEGER NOT NULL,
      probe BLOB NOT NULL,
      -- Whether this store has an anchor: from then on it is not served without.
      anchored INTEGER NOT NULL DEFAULT 0 CHECK (anchored IN (0, 1))
    ) STRICT;

    -- Counts the transactions: see wal-binding.ts.
    CREATE TABLE store_changes (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      changes INTEGER NOT NULL,
      mark TEXT NOT NULL
    ) STRICT;
    INSERT INTO store_changes VALUES (1, 0, '${markOf(0)}');
${shared}
    CREATE UNIQUE INDEX log_heads_by_name ON log_heads (substr(origin, -32));
    -- Whose log a name stands for.
    CREATE VIEW log_names AS SELECT substr(origin, -32) AS name, tenant_id FROM log_heads;
    `,
  },
];
