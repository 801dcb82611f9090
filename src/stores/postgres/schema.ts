/** The schema, as one table of steps; how a database is brought to it, and spread over the nodes of a Citus cluster. */
import { Client } from "pg";
import type { RandomFill } from "../../base/ids.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import type { Queries, Row } from "../sql/queries.ts";
import { type Migration, sharedSchema, tables } from "../sql/schema.ts";
import { requireKnownVersion } from "../sql/store-checks.ts";
import { type ConnectionSettings, clientOptions, prepareConnection } from "./connection/client-options.ts";
import { queriesOf } from "./connection/connection.ts";

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

    -- The tenant of each log name. Written before the log is opened, so a name may have no log.
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
  const { rows: found } = await queries.query("SELECT to_regclass('schema_migrations') IS NOT NULL AS is_there", []);
  const rows = found[0]?.is_there === true ? (await queries.query(readVersions, [])).rows : [];
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
    throw new IncompatibleStoreError("The database belongs to another program: give the service its own.");
  return rows.length;
}

// A cluster has all rows of a tenant on one node.

/** Tables by how Citus distributes them: see https://docs.citusdata.com/en/stable/develop/reference_ddl.html */
export const placement = {
  /** Rows of a tenant, in the same shard for all of these tables, so that its transactions stay on one node. */
  byTenant: Object.values(tables).map(({ name }): string => name),
  /** The distribution column of tables that are read before the tenant is known. */
  byKey: { log_names: "name" } as Readonly<Record<string, string>>,
  /** Copied to every node. A write needs all nodes, so only for rows that change with keys, policies or the schema. */
  everywhere: ["schema_migrations", "signing_keys", "policy_revisions"],
  /**
   * On the coordinator alone, reachable from every node. The probe writes there: a write to all nodes would take every
   * gateway out of service if one node is down.
   */
  onCoordinator: ["store", "store_copy"],
};

/** Settings that every node must have; otherwise it may lose commits. */
const durableSettings = [
  { name: "fsync", good: ["on"] },
  { name: "full_page_writes", good: ["on"] },
  { name: "synchronous_commit", good: ["on", "remote_apply"] },
];

export async function isDistributed(queries: Queries): Promise<boolean> {
  return (await hasExtension(queries)) && (await placedTables(queries)).size > 0;
}

/**
 * Places every table that has no place yet, with its rows. Must be called in a transaction, by one process at a time.
 * Resolves with the names of those tables. Rejects with `IncompatibleStoreError` if the extension or the workers are
 * missing, this is not the coordinator, or a node is not durable; with an error if a node does not answer.
 */
export async function distributeTables(queries: Queries): Promise<readonly string[]> {
  if (!(await hasExtension(queries)))
    throw new IncompatibleStoreError(
      "The database has no extension `citus`: install it on every node, put it into `shared_preload_libraries`, " +
        "run `CREATE EXTENSION citus` on each, and add the workers with `citus_add_node`.",
    );
  await requireCoordinator(queries);
  await requireDurableNodes(queries);
  const placed = await placedTables(queries);
  const missing = allTables.filter((table) => !placed.has(table));
  for (const table of missing) await queries.query(placing(table), [table]);
  return missing;
}

/**
 * Requires durable settings of every node of a distributed database, since a connection shows the settings of one node
 * only. Rejects with `IncompatibleStoreError` naming the node, with an error if a node does not answer.
 */
export async function requireDurableNodes(queries: Queries): Promise<void> {
  for (const { name, good } of durableSettings) {
    const { rows } = await queries.query(settingOfNodes, [`SELECT current_setting('${name}')`]);
    for (const { nodename, nodeport, success, result } of rows) {
      const node = `The node ${nodename}:${nodeport}`;
      if (success !== true) throw new Error(`${node} does not answer: ${result}`);
      if (!good.includes(result as string))
        throw new IncompatibleStoreError(`${node} has ${name} ${result}: a crash would lose what it has committed.`);
    }
  }
}

const settingOfNodes = `
  SELECT node.nodename, node.nodeport, answer.success, answer.result
    FROM run_command_on_all_nodes($1) AS answer JOIN pg_dist_node AS node USING (nodeid)`;

async function hasExtension(queries: Queries): Promise<boolean> {
  const text = "SELECT FROM pg_extension WHERE extname = 'citus'";
  return (await queries.query(text, [])).count === 1;
}

/** Requires the node that places tables. A coordinator without workers would keep all of them. */
async function requireCoordinator(queries: Queries): Promise<void> {
  const text = `
    SELECT citus_is_coordinator() AS is_coordinator,
           (SELECT count(*) FROM pg_dist_node WHERE shouldhaveshards AND isactive AND noderole = 'primary') AS nodes`;
  const [row] = (await queries.query(text, [])).rows as [Row];
  if (row.is_coordinator !== true)
    throw new IncompatibleStoreError("This node is not the coordinator of the cluster: run `migrate` there.");
  if (row.nodes === 0)
    throw new IncompatibleStoreError("No node of the cluster takes shards: add workers with `citus_add_node`.");
}

async function placedTables(queries: Queries): Promise<ReadonlySet<string>> {
  const text = `
    SELECT relname FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid
     WHERE relnamespace = current_schema()::regnamespace`;
  return new Set((await queries.query(text, [])).rows.map(({ relname }) => relname as string));
}

/** Every table of the schema, in the order of placement: others are colocated with the first. */
const allTables: readonly string[] = [
  ...placement.byTenant,
  ...Object.keys(placement.byKey),
  ...placement.everywhere,
  ...placement.onCoordinator,
];

function placing(table: string): string {
  const [first] = placement.byTenant;
  const key = placement.byTenant.includes(table) ? "tenant_id" : placement.byKey[table];
  const beside = key !== "tenant_id" || table === first ? "none" : first;
  if (key !== undefined)
    return `SELECT create_distributed_table($1::text::regclass, '${key}', colocate_with => '${beside}')`;
  if (placement.everywhere.includes(table)) return "SELECT create_reference_table($1::text::regclass)";
  return "SELECT citus_add_local_table_to_metadata($1::text::regclass)";
}
