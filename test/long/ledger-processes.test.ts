/** Processes that share a store, and processes that are killed. */
import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type SqliteFixture, sqliteFixture } from "../contract/ledger-sqlite-fixture.ts";
import { expectGapless } from "../contract/ledger-suite.ts";

const tenants = ["alice", "bob", "carol"];

let fixture: SqliteFixture;
let children: ChildProcess[];

beforeEach(() => {
  fixture = sqliteFixture();
  children = [];
});
afterEach(async () => {
  for (const child of children) child.kill("SIGKILL");
  await fixture.remove();
});

interface Child {
  /** What was acknowledged so far: `tenant leafIndex recordId`. */
  readonly acknowledged: string[];
  readonly process: ChildProcess;
  /** Resolves with the exit code, null when killed, once all output was read. */
  readonly ended: Promise<number | null>;
}

function startChild(records: number, onAcknowledged: (child: Child) => void = () => {}): Child {
  const script = new URL("../contract/ledger-child.ts", import.meta.url).pathname;
  const process_ = spawn(process.execPath, [script, dirname(fixture.path), String(records)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return watch(process_, onAcknowledged);
}

/** A child whose files cannot grow over `blocks` of the shell, half or a whole KiB each: as on a disk that is full. */
function startLimitedChild(blocks: number): Child {
  const script = new URL("../contract/ledger-child.ts", import.meta.url).pathname;
  const line = [process.execPath, script, dirname(fixture.path), "1000000", "until-refused"];
  return watch(
    spawn("sh", ["-c", `ulimit -f ${blocks}; exec "$0" "$@"`, ...line], { stdio: ["ignore", "pipe", "inherit"] }),
  );
}

function watch(
  process_: ChildProcessByStdio<null, Readable, null>,
  onAcknowledged: (child: Child) => void = () => {},
): Child {
  children.push(process_);
  const ended = new Promise<number | null>((resolve) => process_.once("close", resolve));
  const child: Child = { acknowledged: [], process: process_, ended };
  createInterface({ input: process_.stdout }).on("line", (line) => {
    child.acknowledged.push(line);
    onAcknowledged(child);
  });
  return child;
}

/** Every acknowledged record stands at its index, every index is used once, none is left out. */
async function expectStored(acknowledged: readonly string[]): Promise<void> {
  const stored = new Set<string>();
  for (const tenantId of tenants) {
    const rows = await fixture.rows(tenantId);
    await expectGapless(fixture, tenantId, rows.length);
    for (const { leafIndex, recordId } of rows) stored.add(`${tenantId} ${leafIndex} ${recordId}`);
    const [head] = fixture.query("SELECT size FROM log_heads WHERE tenant_id = ?", tenantId);
    expect(head?.size ?? 0).toBe(rows.length);
  }
  expect(acknowledged.filter((line) => !stored.has(line))).toEqual([]);
  expect(new Set(acknowledged).size).toBe(acknowledged.length);
  await fixture.verify();
  expect(fixture.query("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
}

test("two processes that start at once on one file share the logs", { timeout: 60_000 }, async () => {
  const writers = [startChild(400), startChild(400)];
  expect(await Promise.all(writers.map(({ ended }) => ended))).toEqual([0, 0]);
  const acknowledged = writers.flatMap((writer) => writer.acknowledged);
  expect(acknowledged).toHaveLength(800);
  await expectStored(acknowledged);
});

test("a process that is killed under load loses nothing acknowledged", { timeout: 120_000 }, async () => {
  const acknowledged: string[] = [];
  for (let round = 0; round < 10; round++) {
    const killAfter = 50 + round * 97;
    const child = startChild(1_000_000, ({ process, acknowledged }) => {
      if (acknowledged.length === killAfter) process.kill("SIGKILL");
    });
    expect(await child.ended).toBe(null);
    expect(child.acknowledged.length).toBeGreaterThanOrEqual(killAfter);
    acknowledged.push(...child.acknowledged);
    await expectStored(acknowledged);
  }
});

test("on a full disk writes are refused, and the next process continues the log", { timeout: 60_000 }, async () => {
  const limited = startLimitedChild(4_096);
  expect(await limited.ended).toBe(3);
  expect(limited.acknowledged.length).toBeGreaterThan(100);
  await expectStored(limited.acknowledged);
  const next = startChild(100);
  expect(await next.ended).toBe(0);
  await expectStored([...limited.acknowledged, ...next.acknowledged]);
});
