/** The schema, as one table of steps, and how a database is brought to it. */
import { Client } from "pg";
import type { RandomFill } from "../../../base/ids.ts";
import { IncompatibleStoreError } from "../../files/errors.ts";
import type { Queries } from "../../sql/queries.ts";
import { type Migration, sharedSchema } from "../../sql/schema.ts";
import { requireKnownVersion } from "../../sql/store-checks.ts";
import { type ConnectionSettings, clientOptions, prepareConnection } from "../connection/client-options.ts";
import { queriesOf } from "../connection/connection.ts";
import { distributeTables, isDistributed } from "./distribute.ts";

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

export interface MigrateOptions extends ConnectionSettings {
  readonly random: RandomFill;
  /** Default: all that this program knows. */
  readonly migrations?: readonly Migration[];
  /** Whether to distribute the tables over the nodes of a Citus cluster. Not needed for later tables. */
  readonly distributed?: boolean;
}

/** Key of the advisory lock of migrations. Arbitrary. */
const lockKey = 0x5350_4131;

/**
 * Applies the missing migrations, all or nothing. Safe when several processes start at once: they take turns. Rejects
 * with `IncompatibleStoreError` if the schema version is unknown or another program's, with an error of the driver if
 * the database cannot be reached, and like `distributeTables`. Resolves with the names of the applied migrations, and
 * of the distributed tables.
 */
export async function migratePostgres(options: MigrateOptions): Promise<readonly string[]> {
  const known = options.migrations ?? migrations;
  // Without timeouts: a large table, or another migration, may take long.
  const client = new Client(clientOptions(options, 0));
  await client.connect();
  try {
    await prepareConnection(client);
    await client.query("BEGIN");
    await client.query("SELECT pg_advisory_xact_lock($1)", [lockKey]);
    await client.query(
      "CREATE TABLE IF NOT EXISTS schema_migrations (version integer PRIMARY KEY, name text NOT NULL)",
    );
    const { rows } = await client.query(readVersions);
    const missing = known.slice(knownVersion(rows, known));
    for (const [position, { name, sql }] of missing.entries()) {
      await client.query(sql);
      const version = known.length - missing.length + position + 1;
      await client.query("INSERT INTO schema_migrations (version, name) VALUES ($1, $2)", [version, name]);
    }
    const storeId = Buffer.from(options.random(new Uint8Array(16))).toString("hex");
    await client.query(
      "INSERT INTO store (singleton, store_id, probed_at_ms) VALUES (1, $1, 0) ON CONFLICT DO NOTHING",
      [storeId],
    );
    const queries = queriesOf(client);
    const isSpread = options.distributed === true || (await isDistributed(queries));
    const placed = isSpread ? await distributeTables(queries) : [];
    await client.query("COMMIT");
    return [...missing.map(({ name }) => name), ...placed.map((table) => `distribute ${table}`)];
  } finally {
    await client.end(); // rolls back what was not committed
  }
}

const readVersions = "SELECT version, name FROM schema_migrations ORDER BY version";

/** Rejects with `IncompatibleStoreError` if the database does not have exactly this program's schema. */
export async function requireSchema(queries: Queries): Promise<void> {
  const { rows: tables } = await queries.query("SELECT to_regclass('schema_migrations') IS NOT NULL AS is_there", []);
  const rows = tables[0]?.is_there === true ? (await queries.query(readVersions, [])).rows : [];
  const version = knownVersion(rows, migrations);
  if (version < migrations.length)
    throw new IncompatibleStoreError(
      version === 0
        ? "The database has no schema yet: run `migrate`."
        : `The database has schema version ${version}; this program needs ${migrations.length}: run \`migrate\`.`,
    );
}

/** The version in the rows of `schema_migrations`; 0 if there are none. */
function knownVersion(rows: readonly Record<string, unknown>[], known: readonly Migration[]): number {
  requireKnownVersion("The database", rows.length, known.length);
  if (!rows.every(({ version, name }, at) => version === at + 1 && name === known[at]?.name))
    throw new IncompatibleStoreError("The database is another program's: give the service one of its own.");
  return rows.length;
}
