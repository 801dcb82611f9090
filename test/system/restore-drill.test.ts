/**
 * The drills of docs/operations.md, from a loaded service to a restored one, as an operator carries them out: the service
 * and every command in processes of their own. Prints how long each step took on this machine.
 */
import { copyFileSync, lstatSync, rmSync, writeFileSync } from "node:fs";
import { chown } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { migratePostgres } from "../../src/stores/postgres/schema.ts";
import { targetOf } from "../contract/ledger-postgres-fixture.ts";
import { seededRandom } from "../contract/ledger-records.ts";
import { folderForTest } from "../harness/folder.ts";
import { rest } from "../harness/gateway.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forTest } from "../harness/lifetimes.ts";
import { startPostgres } from "../harness/postgres.ts";
import { baseBackup } from "../harness/postgres-standby.ts";
import { type RunningService, serviceSettings, spawnService, startService } from "../harness/process.ts";
import { startCommand } from "./clients-programs.ts";

const tenant = "tenant-a";
const scope = "platform-api.access policy.read artifacts.write evidence.write";
const program = join(import.meta.dirname, "../../src/cli/cli.ts");
const route = "/v1/sdk/protection-plan";
const body = sampleCalls().find((call) => call.route === route)?.body;
const loaders = 8;
/** A dozen processes are started one after the other, on a machine that may be busy. */
const timeout = 300_000;

const issuer = await issuerForFile();
let directory: string;
let settings: Record<string, string>;
let service: RunningService;

beforeEach(() => {
  directory = folderForTest("drill");
  settings = { ...serviceSettings(directory, issuer.url), SVC_ANCHOR: join(directory, "anchor") };
});

interface Acknowledged {
  readonly decisionId: string;
  readonly answer: unknown;
}

/** Loads the service for so many acknowledged calls, at least. */
async function loadFor(count: number): Promise<readonly Acknowledged[]> {
  const acknowledged: Acknowledged[] = [];
  while (acknowledged.length < count) acknowledged.push(...(await loadDuring(async () => {})));
  return acknowledged;
}

/** What is acknowledged to loaders, which call one after the other, while the work is done. Rejects if a call is refused. */
async function loadDuring(work: () => Promise<unknown>): Promise<readonly Acknowledged[]> {
  const { url } = service;
  const acknowledged: Acknowledged[] = [];
  const token = issuer.token({ tenant_id: tenant, scope });
  let isOver = false;
  const loading = Array.from({ length: loaders }, async () => {
    while (!isOver) {
      const answer = await rest(url + route, { token, body });
      expect(answer.status).toBe(200);
      acknowledged.push({ decisionId: answer.body.decision.decision_id, answer: answer.body });
    }
  });
  const working = work().finally(() => {
    isOver = true;
  });
  await Promise.all([working, ...loading]);
  return acknowledged;
}

function cli(...args: readonly string[]) {
  const { SVC_STORE = "", SVC_LEDGER_KEY = "", SVC_ANCHOR = "" } = settings;
  return startCommand([process.execPath, program, ...args], { SVC_STORE, SVC_LEDGER_KEY, SVC_ANCHOR }).done;
}

async function timed<Result>(step: string, work: () => Promise<Result>): Promise<Result> {
  const startedMs = performance.now();
  const result = await work();
  process.stdout.write(`drill: ${step}: ${((performance.now() - startedMs) / 1_000).toFixed(2)} s\n`);
  return result;
}

/** Kills it, as a crash does. */
const crash = () => service.stop();

/** Ready when it listens: it has looked at store, anchor and key by then. */
async function start(): Promise<void> {
  service = await forTest(startService(directory, settings));
}

async function refusal(): Promise<string> {
  const refused = spawnService(directory, settings);
  expect((await refused.ended).code).toBe(1);
  return refused.errors();
}

/** Receipts from before verify with the key that the operator gave out, and retold answers are those in the log. */
async function expectReceipts(vkey: string, acknowledged: readonly Acknowledged[]): Promise<void> {
  const file = join(directory, "answer.json");
  const [first, last] = [acknowledged[0], acknowledged.at(-1)];
  for (const one of [first, last]) {
    writeFileSync(file, JSON.stringify(one?.answer));
    expect(await cli("ledger", "receipt", "verify", file, "--key", vkey)).toMatchObject({ code: 0 });
  }
}

const erase = (recordId: string) =>
  cli("ledger", "erase", "--tenant", tenant, "--record", recordId, "--reason", "drill", "--operator", "olga", "--yes");
const search = (recordId: string) => cli("ledger", "search", "--tenant", tenant, "--record", recordId, "--records");

test("SQLite: a backup under load, an erasure, the loss of the store, and both copies restored", {
  timeout,
}, async () => {
  const path = join(directory, "platform.db");
  const [older, newest] = [join(directory, "older.db"), join(directory, "newest.db")];
  const putBack = async (copy: string) => {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
    copyFileSync(copy, path);
  };
  await start();
  const before = await loadFor(300);
  const [erased] = before;
  const during = await loadDuring(() =>
    timed("SQLite, backup under load", async () =>
      expect(await cli("store", "backup", "--to", older)).toMatchObject({ code: 0 }),
    ),
  );
  const after = await loadFor(100);
  expect(await erase(erased?.decisionId ?? "")).toMatchObject({ code: 0 });
  expect(await cli("store", "backup", "--to", newest)).toMatchObject({ code: 0 });
  const vkey = (await cli("keys", "show")).stdout.trim();
  await crash();

  await putBack(older);
  const verified = await cli("ledger", "verify");
  expect(verified.code).toBe(1);
  const [, has, had] = /has (\d+) leaves, and had (\d+): the store is an older copy/.exec(verified.stderr) ?? [];
  // The genesis leaf, and that of the erasure.
  expect(Number(had)).toBe(before.length + during.length + after.length + 2);
  expect(Number(has)).toBeGreaterThan(before.length);
  expect(Number(has)).toBeLessThan(Number(had));
  expect(verified.stderr).toContain("the anchor notes the erasure of 1 record");
  expect(await refusal()).toContain("nothing may be signed");
  expect((await search(erased?.decisionId ?? "")).stdout).toContain("ERASED");

  await timed(`SQLite, restore of ${had} leaves: put back, verified, serving`, async () => {
    await putBack(newest);
    expect(await cli("ledger", "verify")).toMatchObject({ code: 0 });
    await start();
  });
  expect((await search(erased?.decisionId ?? "")).stdout).toContain("ERASED");
  await expectReceipts(vkey, [...before.slice(1), ...during, ...after]);
  await loadFor(10);
  await crash();
  expect(await cli("ledger", "verify")).toMatchObject({ code: 0 });
});

test("PostgreSQL: a base backup under load, an erasure, and recovery to the end and to a point before", {
  timeout,
}, async () => {
  const archive = folderForTest("wal");
  const archiving = { archive_mode: "on", archive_command: `cp %p ${archive}/%f`, wal_level: "replica" };
  const primary = await forTest(startPostgres({ settings: archiving }));
  const { uid, gid } = lstatSync(primary.dataDirectory);
  await chown(archive, uid, gid);
  const recover = async (backup: string, target: Readonly<Record<string, string>>) => {
    const restoring = { restore_command: `cp ${archive}/%f %p`, archive_mode: "off", ...target };
    const server = await forTest(startPostgres({ dataDirectory: backup, settings: restoring }));
    const isOver = async () =>
      (await server.query("SELECT pg_is_in_recovery() AS recovering"))[0]?.recovering === false;
    await expect.poll(isOver, { timeout: 60_000, interval: 50 }).toBe(true);
    return server.url.replace(/postgres$/, "test_0");
  };
  settings.SVC_STORE = await primary.createDatabase();
  await migratePostgres({ target: targetOf(settings.SVC_STORE), random: seededRandom() });
  await start();
  const before = await loadFor(300);
  const [erased] = before;
  let backup = "";
  const during = await loadDuring(() =>
    timed("PostgreSQL, base backup under load", async () => {
      backup = await baseBackup(primary, "recovery.signal");
    }),
  );
  const copy = await baseBackup(primary, "recovery.signal");
  const after = await loadFor(100);
  await primary.query("SELECT pg_create_restore_point('before_erasure')");
  expect(await erase(erased?.decisionId ?? "")).toMatchObject({ code: 0 });
  const vkey = (await cli("keys", "show")).stdout.trim();
  const [{ wal } = {}] = await primary.query("SELECT pg_walfile_name(pg_switch_wal()) AS wal");
  const archived = async () =>
    ((await primary.query("SELECT last_archived_wal AS wal FROM pg_stat_archiver"))[0]?.wal as string | null) ?? "";
  await expect.poll(archived, { timeout: 60_000, interval: 50 }).toSatisfy((name: string) => name >= String(wal));
  await crash();
  await primary.kill();

  const leaves = before.length + during.length + after.length + 2;
  await timed(`PostgreSQL, recovery of ${leaves} leaves: replayed, verified, serving`, async () => {
    settings.SVC_STORE = await recover(backup, {});
    expect(await cli("ledger", "verify")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`${leaves} leaves`),
    });
    await start();
  });
  expect((await search(erased?.decisionId ?? "")).stdout).toContain("ERASED");
  await expectReceipts(vkey, [...before.slice(1), ...during, ...after]);
  await loadFor(10);
  await crash();

  settings.SVC_STORE = await timed("PostgreSQL, recovery to a point in time", () =>
    recover(copy, { recovery_target_name: "before_erasure", recovery_target_action: "promote" }),
  );
  const verified = await cli("ledger", "verify");
  expect(verified.code).toBe(1);
  expect(verified.stderr).toContain(`has ${leaves - 1} leaves, and had`);
  expect(await refusal()).toContain("nothing may be signed");
});
