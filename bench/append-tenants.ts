/**
 * What a record costs by the number of tenants that write at the same time: records a second and a commit, latencies, and
 * processor time of this process and of the database. Straight at the ledger: no HTTP, no load generator.
 *
 * `node bench/append-tenants.ts [--store sqlite|postgres] [--tenants 1,20,100,1] [--replicas 1,2] [--callers 128]
 * [--seconds 3] [--sizes 1000,1000000]`. Every number of replicas, which are all in this process, has a store of its own.
 * With `--sizes` each row is measured once the store has so many records. Needs Linux's /proc for the database's time.
 * For logs of many tenants that were idle: `--tenants 10000 --callers 1`.
 */
import { randomFillSync } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { systemClock } from "../src/base/clock.ts";
import type { RandomFill } from "../src/base/ids.ts";
import type { Ledger } from "../src/ledger/ports/ledger.ts";
import { openPostgresStores } from "../src/stores/postgres/open-ledger.ts";
import { migratePostgres } from "../src/stores/postgres/schema/migrate.ts";
import { openSqliteLedger } from "../src/stores/sqlite/open-ledger.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import { cpuMicros } from "./child.ts";
import { makeRecord } from "./raw-sqlite.ts";

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
const random: RandomFill = (bytes) => randomFillSync(bytes);
const directory = mkdtempSync(join(tmpdir(), "bench-tenants-"));
let commits = 0;
/** Records of the store that is measured. */
let records = 0;
const opening = {
  originPrefix: "bench.example/logs",
  clock: systemClock,
  random,
  commits: {
    elapsedMs: () => performance.now(),
    committed: (appended: number) => {
      commits += 1;
      records += appended;
    },
  },
};

const server = values.store === "postgres" ? await startPostgres({ settings: { shared_buffers: "128MB" } }) : undefined;

/** Opens the replicas of one store. */
async function openReplicas(replicas: number): Promise<readonly Ledger[]> {
  const path = join(directory, `ledger-${replicas}.db`);
  const paths = { path, anchorPath: `${path}.anchor`, keyPath: `${path}.key` };
  const target = server && targetOf(await server.createDatabase());
  if (target !== undefined) await migratePostgres({ target, random });
  const ledgers: Ledger[] = [];
  // The first makes the key.
  for (let replica = 0; replica < replicas; replica++)
    ledgers.push(
      target === undefined
        ? await openSqliteLedger({ ...opening, ...paths })
        : (await openPostgresStores({ ...opening, target, keyPath: paths.keyPath })).ledger,
    );
  return ledgers;
}

/** Every caller appends, waits for the answer, and appends to another log, while it may go on. */
async function load(ledgers: readonly Ledger[], tenants: number, goesOn: () => boolean): Promise<number[]> {
  const latenciesMs: number[] = [];
  const call = async (caller: number) => {
    let turn = caller;
    while (goesOn()) {
      const began = performance.now();
      // As good as random, and each tenant as often as any.
      turn = (turn * 7_919 + 13) % 1_000_003;
      await ledgers[caller % ledgers.length]?.append(makeRecord(turn % tenants));
      latenciesMs.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => call(caller)));
  return latenciesMs.sort((one, other) => one - other);
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

function until(durationMs: number): () => boolean {
  const end = performance.now() + durationMs;
  return () => performance.now() < end;
}

async function measure(ledgers: readonly Ledger[], tenants: number, size: number) {
  await load(ledgers, tenants, () => records < size);
  await load(ledgers, tenants, until(measureMs / 2));
  const recordsBefore = records;
  const before = { commits, own: process.cpuUsage(), database: databaseMicros(), ms: performance.now() };
  const latenciesMs = await load(ledgers, tenants, until(measureMs));
  const appended = latenciesMs.length;
  const own = process.cpuUsage(before.own);
  const at = (share: number) => (latenciesMs[Math.ceil(appended * share) - 1] ?? Number.NaN).toFixed(2);
  return {
    replicas: ledgers.length,
    tenants,
    "records before": recordsBefore,
    "records/s": Math.round((appended * 1_000) / (performance.now() - before.ms)),
    "p50 ms": at(0.5),
    "p99 ms": at(0.99),
    "records a commit": (appended / (commits - before.commits)).toFixed(1),
    "µs here": Math.round((own.user + own.system) / appended),
    "µs of the database": Math.round((databaseMicros() - before.database) / appended),
    "RSS MiB": Math.round(process.memoryUsage.rss() / 1024 ** 2),
  };
}

try {
  const rows = [];
  for (const replicas of values.replicas.split(",").map(Number)) {
    const ledgers = await openReplicas(replicas);
    records = 0;
    for (const tenants of values.tenants.split(",").map(Number))
      for (const size of values.sizes.split(",").map(Number)) rows.push(await measure(ledgers, tenants, size));
    for (const ledger of ledgers) await ledger.close();
  }
  // biome-ignore lint/suspicious/noConsole: the table is what this program is for
  console.table(rows);
} finally {
  await server?.stop();
  rmSync(directory, { recursive: true, force: true });
}
