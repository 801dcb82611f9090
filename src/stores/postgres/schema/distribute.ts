/** Distributes the tables over the nodes of a Citus cluster, so that all rows of a tenant are on one node. */
import { IncompatibleStoreError } from "../../files/errors.ts";
import type { Queries, Row } from "../../sql/queries.ts";
import { tables } from "../../sql/schema.ts";

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
