/**
 * Durable appends a second through the ledger, on a Citus cluster of this machine beside the same PostgreSQL without
 * the extension, in turn. `node bench/citus.ts [seconds per measurement] [shards]`. Needs what docs/scaling.md names.
 */
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../src/base/clock.ts";
import type { RandomFill } from "../src/base/ids.ts";
import { parsePostgresUrl } from "../src/base/postgres-url.ts";
import type { Ledger } from "../src/ledger/ports/ledger.ts";
import { openPostgresStores } from "../src/stores/postgres/open-ledger.ts";
import { migratePostgres } from "../src/stores/postgres/schema/migrate.ts";
import { startCitus, startPlainPostgres } from "../test/harness/citus.ts";
import { makeRecord } from "./raw-sqlite.ts";

const measureMs = Number(process.argv[2] ?? 3) * 1_000;
const shards = Number(process.argv[3] ?? 32);
const callers = 128;
const random: RandomFill = (bytes) => randomFillSync(bytes);
const directory = mkdtempSync(join(tmpdir(), "bench-citus-"));

async function open(url: string, distributed: boolean): Promise<Ledger> {
  const target = parsePostgresUrl(url);
  if ("problem" in target) throw new Error(target.problem);
  await migratePostgres({ target, random, distributed });
  const place = { target, keyPath: join(directory, `${distributed}.key`), originPrefix: "bench.example/logs" };
  return (await openPostgresStores({ ...place, clock: systemClock, random, poolSize: 20 })).ledger;
}

/** Callers that each append, wait for the answer, and append again. Resolves with the appends a second. */
async function load(ledger: Ledger, tenants: number, durationMs: number): Promise<number> {
  let appended = 0;
  const began = performance.now();
  const call = async (caller: number) => {
    for (let turn = 0; performance.now() - began < durationMs; turn += 1) {
      await ledger.append(makeRecord((caller + turn * callers) % tenants));
      appended += 1;
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => call(caller)));
  return (appended / (performance.now() - began)) * 1_000;
}

/** What a record takes in tables and indexes, and has taken in the write-ahead log. */
async function sizes(url: string): Promise<string> {
  const [row] = await plain.query(
    `SELECT sum(size) AS records, pg_current_wal_lsn() - '0/0' AS wal,
            (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
              WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace) AS stored
       FROM log_heads`,
    url,
  );
  const each = (bytes: unknown) => Math.round(Number(bytes) / Number(row?.records));
  return `${row?.records} records: ${each(row?.stored)} bytes each in tables and indexes, ${each(row?.wal)} of log`;
}

const plain = await startPlainPostgres();
try {
  const cluster = await startCitus({ shards });
  try {
    const plainUrl = await plain.createDatabase();
    const ledgers = [
      await open(plainUrl, false),
      await open(await cluster.coordinator.createDatabase(), true),
    ] as const;
    const table = [];
    for (const tenants of [1, 10, 100]) {
      const rates: number[] = [];
      for (const ledger of ledgers) {
        await load(ledger, tenants, measureMs / 2);
        rates.push(await load(ledger, tenants, measureMs));
      }
      const [without = Number.NaN, spread = Number.NaN] = rates;
      table.push({
        tenants,
        "PostgreSQL/s": Math.round(without),
        "Citus/s": Math.round(spread),
        ratio: (spread / without).toFixed(2),
      });
    }
    for (const ledger of ledgers) await ledger.close();
    // biome-ignore lint/suspicious/noConsole: the line is what this program is for
    console.log(await sizes(plainUrl));
    // biome-ignore lint/suspicious/noConsole: the table is what this program is for
    console.table(table);
  } finally {
    await cluster.stop();
  }
} finally {
  await plain.stop();
  rmSync(directory, { recursive: true, force: true });
}
