/**
 * A real Citus cluster for one test file: a coordinator and workers on loopback, from an installed PostgreSQL that has
 * the extension. `SVC_TEST_CITUS_BINARIES` names the directory of its programs; by default Debian's PostgreSQL 15.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { type PostgresServer, startPostgres } from "./postgres.ts";

const binaries = process.env.SVC_TEST_CITUS_BINARIES ?? "/usr/lib/postgresql/15/bin";

/**
 * Starts a cluster of two workers. Rejects where PostgreSQL or the extension is not installed.
 *
 * @param settings of every node, besides those that a cluster needs
 */
export async function startCitus(settings: Readonly<Record<string, string>> = {}) {
  requireCitus();
  const options = { binaries, settings: { ...clusterSettings, ...settings } };
  const nodes: PostgresServer[] = [];
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()));
  };
  try {
    for (let started = 0; started <= 2; started++) nodes.push(await startPostgres(options));
  } catch (error) {
    await stop();
    throw error;
  }
  const [first, ...others] = nodes as [PostgresServer, ...PostgresServer[]];
  /** Makes a database with the extension on every node, and tells them of each other. */
  const createDatabase: PostgresServer["createDatabase"] = async (name) => {
    const url = await first.createDatabase(name);
    const database = new URL(url).pathname.slice(1);
    await Promise.all(others.map((node) => node.createDatabase(database)));
    await Promise.all(nodes.map((node) => node.query("CREATE EXTENSION citus", urlOf(node, database))));
    await first.query(`SELECT citus_set_coordinator_host('127.0.0.1', ${first.port})`, url);
    for (const { port } of others) await first.query(`SELECT citus_add_node('127.0.0.1', ${port})`, url);
    return url;
  };
  return { coordinator: { ...first, createDatabase }, workers: others, stop };
}

/** URL of a database of a node. */
export function urlOf({ url }: PostgresServer, database: string): string {
  const at = new URL(url);
  at.pathname = `/${database}`;
  return at.href;
}

/** Each database has a process of its own that looks after it, besides those of the server. */
const clusterSettings = {
  shared_preload_libraries: "citus",
  // Few, so that databases are made quickly.
  "citus.shard_count": "4",
  // Loopback, and no certificates.
  "citus.node_conninfo": "sslmode=disable",
  wal_level: "logical",
  max_prepared_transactions: "100",
  max_connections: "200",
  max_worker_processes: "64",
};

function requireCitus(): void {
  const { status, stdout } = spawnSync(join(binaries, "pg_config"), ["--pkglibdir"], { encoding: "utf8" });
  if (status !== 0 || spawnSync("test", ["-f", join(stdout.trim(), "citus.so")]).status !== 0)
    throw new Error(`There is no PostgreSQL with Citus in ${binaries}: see docs/scaling.md.`);
}
