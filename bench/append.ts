/**
 * Durable appends a second through the ledger, beside raw inserts of rows of the same size into the same schema, with
 * as many rows a commit as there are callers, in the same run. `node bench/append.ts [seconds per measurement]`.
 */
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { systemClock } from "../src/base/clock.ts";
import type { RandomFill } from "../src/base/ids.ts";
import type { Ledger } from "../src/ledger/ports/ledger.ts";
import { openSqliteLedger } from "../src/stores/sqlite/open-ledger.ts";
import { makeRecord, measureRaw } from "./raw-sqlite.ts";

const measureMs = Number(process.argv[2] ?? 2) * 1_000;
const warmUpMs = measureMs / 4;
const random: RandomFill = (bytes) => randomFillSync(bytes);
const directory = mkdtempSync(join(tmpdir(), "bench-append-"));

interface Row {
  readonly callers: number;
  readonly tenants: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly loopP99Ms: number;
  readonly rawPerSecond: number;
}

/** Callers that each append, wait for the answer, and append again. */
async function measureLedger(callers: number, tenants: number): Promise<Omit<Row, "rawPerSecond">> {
  const path = join(directory, `ledger-${callers}-${tenants}.db`);
  const paths = { path, anchorPath: `${path}.anchor`, keyPath: `${path}.key` };
  const ledger = await openSqliteLedger({ ...paths, originPrefix: "bench.example/logs", clock: systemClock, random });
  await load(ledger, callers, tenants, warmUpMs);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const began = performance.now();
  const latenciesMs = await load(ledger, callers, tenants, measureMs);
  const seconds = (performance.now() - began) / 1_000;
  delay.disable();
  await ledger.close();
  latenciesMs.sort((a, b) => a - b);
  const at = (share: number) => latenciesMs[Math.ceil(latenciesMs.length * share) - 1] ?? Number.NaN;
  return {
    callers,
    tenants,
    perSecond: latenciesMs.length / seconds,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    loopP99Ms: delay.percentile(99) / 1e6,
  };
}

async function load(ledger: Ledger, callers: number, tenants: number, durationMs: number): Promise<number[]> {
  const latenciesMs: number[] = [];
  const end = performance.now() + durationMs;
  const call = async (caller: number) => {
    for (let began = performance.now(); began < end; began = performance.now()) {
      await ledger.append(makeRecord(caller % tenants));
      latenciesMs.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => call(caller)));
  return latenciesMs;
}

try {
  const rows: Row[] = [];
  for (const callers of [1, 16, 64, 256]) {
    const rawPerSecond = measureRaw(directory, callers, measureMs, warmUpMs);
    for (const tenants of new Set([1, Math.min(callers, 16)])) {
      rows.push({ ...(await measureLedger(callers, tenants)), rawPerSecond });
    }
  }
  const table = rows.map((row) => ({
    callers: row.callers,
    tenants: row.tenants,
    "records/s": Math.round(row.perSecond),
    "raw rows/s": Math.round(row.rawPerSecond),
    ratio: (row.perSecond / row.rawPerSecond).toFixed(2),
    "p50 ms": row.p50Ms.toFixed(2),
    "p99 ms": row.p99Ms.toFixed(2),
    "loop p99 ms": row.loopP99Ms.toFixed(2),
  }));
  // biome-ignore lint/suspicious/noConsole: the table is what this program is for
  console.table(table);
} finally {
  rmSync(directory, { recursive: true, force: true });
}
