/**
 * What a record costs by the number of tenants that write at the same time: records a second and a commit, latencies, and
 * processor time of this process and of the database. Straight at the ledger: no HTTP, no load generator.
 *
 * `node bench/append-tenants.ts [--store sqlite|postgres] [--tenants 1,20,100,1] [--replicas 1,2] [--callers 128]
 * [--seconds 3]`. Every number of replicas, which are all in this process, has a store of its own. Needs Linux's /proc for
 * the database's time. For logs of many tenants that were idle: `--tenants 10000 --callers 1`.
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
  },
});
const callers = Number(values.callers);
const measureMs = Number(values.seconds) * 1_000;
const random: RandomFill = (bytes) => randomFillSync(bytes);
const directory = mkdtempSync(join(tmpdir(), "bench-tenants-"));
let commits = 0;
const opening = {
  originPrefix: "bench.example/logs",
  clock: systemClock,
  random,
  commits: { elapsedMs: () => performance.now(), committed: () => void commits++ },
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

/** Every caller appends, waits for the answer, and appends to another log. */
async function load(ledgers: readonly Ledger[], tenants: number, durationMs: number): Promise<number[]> {
  const latenciesMs: number[] = [];
  const end = performance.now() + durationMs;
  const call = async (caller: number) => {
    let turn = caller;
    for (let began = performance.now(); began < end; began = performance.now()) {
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
  return children.reduce((sum, child) => sum + cpuMicros(Number(child)), 0);
}

async function measure(ledgers: readonly Ledger[], tenants: number) {
  await load(ledgers, tenants, measureMs / 2);
  const before = { commits, own: process.cpuUsage(), database: databaseMicros(), ms: performance.now() };
  const latenciesMs = await load(ledgers, tenants, measureMs);
  const records = latenciesMs.length;
  const own = process.cpuUsage(before.own);
  const at = (share: number) => (latenciesMs[Math.ceil(records * share) - 1] ?? Number.NaN).toFixed(2);
  return {
    replicas: ledgers.length,
    tenants,
    "records/s": Math.round((records * 1_000) / (performance.now() - before.ms)),
    "p50 ms": at(0.5),
    "p99 ms": at(0.99),
    "records a commit": (records / (commits - before.commits)).toFixed(1),
    "µs here": Math.round((own.user + own.system) / records),
    "µs of the database": Math.round((databaseMicros() - before.database) / records),
    "RSS MiB": Math.round(process.memoryUsage.rss() / 1024 ** 2),
  };
}

try {
  const rows = [];
  for (const replicas of values.replicas.split(",").map(Number)) {
    const ledgers = await openReplicas(replicas);
    for (const tenants of values.tenants.split(",").map(Number)) rows.push(await measure(ledgers, tenants));
    for (const ledger of ledgers) await ledger.close();
  }
  // biome-ignore lint/suspicious/noConsole: the table is what this program is for
  console.table(rows);
} finally {
  await server?.stop();
  rmSync(directory, { recursive: true, force: true });
}
