/** The schema, as one table of steps. */
import { type Migration, sharedSchema } from "../../sql/schema.ts";

/**
 * Only `store`, `store_copy`, `policy_revisions`, `signing_keys` and `log_names` have rows without a tenant; they are small. Text is
 * compared byte for byte, whatever the database's collation.
 */
export const migrations: readonly Migration[] = [
  {
    name: "baseline",
    sql: `
    CREATE TABLE store (
      singleton integer PRIMARY KEY CHECK (singleton = 1),
      store_id text NOT NULL,
      probed_at_ms bigint NOT NULL
    );

    -- Whose log a name stands for. Written before the log is opened: a name may stand for a log that never was.
    CREATE TABLE log_names (
      name text COLLATE "C" NOT NULL PRIMARY KEY,
      tenant_id text COLLATE "C" NOT NULL
    );
${sharedSchema("(tenant_id, record_id)").replaceAll(/^( +\w+) text\b/gm, '$1 text COLLATE "C"')}
    -- Sealed bytes do not get smaller: no time is spent on trying.
    ALTER TABLE entries ALTER COLUMN leaf SET STORAGE EXTERNAL, ALTER COLUMN sealed SET STORAGE EXTERNAL;
    ALTER TABLE tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;
    -- Kept as they are, and beside their rows if they fit: a search goes through them.
    ALTER TABLE search_segments SET (toast_tuple_target = 8160);
    ALTER TABLE search_segments ALTER COLUMN terms SET STORAGE EXTERNAL;

    -- For the triggers of a sealed store.
    CREATE FUNCTION refuse_write() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'This store is sealed: it was copied to another one by store copy.'; END $$;
    `,
  },
];
