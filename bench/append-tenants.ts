/**
 * What a record costs by the number of tenants that write at the same time: records a second and a commit, latencies, and
 * processor time of this process and of the database. Straight at the ledger: no HTTP, no load generator.
 *
 * `node bench/append-tenants.ts [--store sqlite|postgres] [--tenants 1,20,100,1] [--replicas 1,2] [--callers 128]
 * [--seconds 3] [--sizes 1000,1000000]`. Every number of replicas, which have a thread each, has a store of its own.
 * With `--sizes` each row is measured once the store has so many records. Needs Linux's /proc for the database's time.
 * For logs of many tenants that were idle: `--tenants 10000 --callers 1`.
 */
import { randomFillSync } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { migratePostgres } from "../src/stores/postgres/schema/migrate.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import type { ReplicaData, ReplicaLoad, ReplicaLoadResult } from "./append-replica.ts";
import { cpuMicros } from "./child.ts";

const { values } = parseArgs({
  options: {
    store: { type: "string", default: "sqlite" },
    tenants: { type: "string", default: "1,20,100,1" },
    replicas: { type: "string", default: "1" },
    callers: { type: "string", default: "128" },
    seconds: { type: "string", default: "3" },
    sizes: { type: "string", default: "0" },
  },
});
const callers = Number(values.callers);
const measureMs = Number(values.seconds) * 1_000;
const directory = mkdtempSync(join(tmpdir(), "bench-tenants-"));

const server = values.store === "postgres" ? await startPostgres({ settings: { shared_buffers: "128MB" } }) : undefined;

/** Starts the replicas of one store. */
async function startReplicas(replicas: number): Promise<readonly Worker[]> {
  const databaseUrl = await server?.createDatabase();
  if (databaseUrl !== undefined) await migratePostgres({ target: targetOf(databaseUrl), random: randomFillSync });
  const workerData: ReplicaData = { path: join(directory, `ledger-${replicas}.db`), databaseUrl };
  const workers: Worker[] = [];
  for (let replica = 0; replica < replicas; replica++) {
    const worker = new Worker(new URL("append-replica.ts", import.meta.url), { workerData });
    // The first makes the key.
    await once(worker, "message");
    workers.push(worker);
  }
  return workers;
}

/** Shares the callers among the replicas. */
async function load(replicas: readonly Worker[], tenants: number, durationMs: number): Promise<ReplicaLoadResult> {
  const results = await Promise.all(
    replicas.map(async (replica, index) => {
      const all = Array.from({ length: callers }, (_, caller) => caller);
      const own = all.filter((caller) => caller % replicas.length === index);
      replica.postMessage({ callers: own, tenants, durationMs } satisfies ReplicaLoad);
      const [result] = (await once(replica, "message")) as [ReplicaLoadResult];
      return result;
    }),
  );
  return {
    latenciesMs: results.flatMap(({ latenciesMs }) => latenciesMs).sort((one, other) => one - other),
    commits: results.reduce((sum, { commits }) => sum + commits, 0),
  };
}

/** Processor time of the server with all its processes so far, in microseconds. */
function databaseMicros(): number {
  if (server === undefined) return 0;
  const [pid] = readFileSync(join(server.dataDirectory, "postmaster.pid"), "utf8").split("\n");
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  return children.reduce((sum, child) => sum + (microsOf(Number(child)) ?? 0), 0);
}

/** Undefined for one that has ended meanwhile, such as a worker of autovacuum. */
function microsOf(pid: number): number | undefined {
  try {
    return cpuMicros(pid);
  } catch {
    return undefined;
  }
}

async function measure(replicas: readonly Worker[], tenants: number, size: number, records: number) {
  let recordsBefore = records;
  const fill = async (durationMs: number) => {
    const { latenciesMs } = await load(replicas, tenants, durationMs);
    recordsBefore += latenciesMs.length;
  };
  while (recordsBefore < size) await fill(measureMs / 2);
  await fill(measureMs / 2);
  const before = { own: process.cpuUsage(), database: databaseMicros(), ms: performance.now() };
  const { latenciesMs, commits } = await load(replicas, tenants, measureMs);
  const appended = latenciesMs.length;
  const own = process.cpuUsage(before.own);
  const at = (share: number) => (latenciesMs[Math.ceil(appended * share) - 1] ?? Number.NaN).toFixed(2);
  return {
    replicas: replicas.length,
    tenants,
    "records before": recordsBefore,
    "records/s": Math.round((appended * 1_000) / (performance.now() - before.ms)),
    "p50 ms": at(0.5),
    "p99 ms": at(0.99),
    "records a commit": (appended / commits).toFixed(1),
    "µs here": Math.round((own.user + own.system) / appended),
    "µs of the database": Math.round((databaseMicros() - before.database) / appended),
    "RSS MiB": Math.round(process.memoryUsage.rss() / 1024 ** 2),
    appended,
  };
}

try {
  const rows = [];
  for (const count of values.replicas.split(",").map(Number)) {
    const replicas = await startReplicas(count);
    let records = 0;
    for (const tenants of values.tenants.split(",").map(Number))
      for (const size of values.sizes.split(",").map(Number)) {
        const { appended, ...row } = await measure(replicas, tenants, size, records);
        records = row["records before"] + appended;
        rows.push(row);
      }
    for (const replica of replicas) {
      replica.postMessage("close");
      await once(replica, "exit");
    }
  }
  // biome-ignore lint/suspicious/noConsole: the table is what this program is for
  console.table(rows);
} finally {
  await server?.stop();
  rmSync(directory, { recursive: true, force: true });
}
