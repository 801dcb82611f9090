/** What commands find around them: a directory of the test's own, and an environment without the machine's settings. */
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, onTestFinished, vi } from "vitest";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import type { RecordId } from "../../../src/base/ids.ts";
import { contentAddress } from "../../../src/base/text-forms.ts";
import { runCommandLine } from "../../../src/cli/run.ts";
import type { Appended } from "../../../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../../../src/ledger/ports/record.ts";
import { openSqliteStores } from "../../../src/stores/sqlite/open-ledger.ts";
import { type ManualClock, recordMaker, seededRandom, storeIn, tenant } from "../../contract/ledger-records.ts";
import { captureTerminal, type Written } from "./terminal.ts";

/** Directory of the test that runs. */
export let directory: string;

/** Gives each test of the file a directory, and no settings in the environment. */
export function eachInDirectory(): void {
  beforeEach(enter);
  afterEach(leave);
}

/** The same, with settings that name a store in the directory. */
export function eachWithStore(): void {
  beforeEach(enterWithStore);
  afterEach(leave);
}

function enter(): void {
  stubSettings({});
  directory = mkdtempSync(join(tmpdir(), "cli-"));
}

/** Leaves these settings in the environment, and no others, until the test that runs has ended. */
export function settingsForTest(settings: Readonly<Record<string, string>>): void {
  onTestFinished(() => void vi.unstubAllEnvs());
  stubSettings(settings);
}

function stubSettings(settings: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) vi.stubEnv(name, undefined);
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value);
}

/** For tests that share a directory. */
export function enterWithStore(): void {
  enter();
  vi.stubEnv("SVC_STORE", `sqlite:${storeIn(directory).path}`);
  vi.stubEnv("SVC_LEDGER_KEY", storeIn(directory).keyPath);
}

export function leave(): void {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true });
}

const random = seededRandom();

/** The ledger of the store, as a service opens it. */
export async function openLedger(clock: Clock = systemClock, within = directory) {
  return (await openSqliteStores({ ...storeIn(within), originPrefix: "ledger.example", clock, random })).ledger;
}

export function makeRecord(name: string, changes: Partial<NewRecord> = {}, clock: Clock = systemClock): NewRecord {
  return recordMaker(clock, random)(tenant(name), changes);
}

/** What a service does between two starts: a record for each tenant. */
export async function served(tenants: readonly string[], clock: Clock = systemClock): Promise<readonly Appended[]> {
  const ledger = await openLedger(clock);
  const appended: Appended[] = [];
  for (const name of tenants) appended.push(await ledger.append(makeRecord(name, {}, clock)));
  await ledger.close();
  return appended;
}

/** A record's changes, made from the ids of the records before it. */
export type Change = (ids: readonly RecordId[]) => Partial<NewRecord>;

/** The same for one tenant: keeps a policy text, and appends a record of each change, so far apart. */
export async function servedTo(
  name: string,
  changes: readonly Change[],
  { clock, stepMs = 1_000, policy }: { clock: ManualClock; stepMs?: number; policy?: string },
): Promise<readonly Appended[]> {
  const ledger = await openLedger(clock);
  if (policy !== undefined) await ledger.keepPolicyRevision(contentAddress(policy), policy);
  const appended: Appended[] = [];
  for (const change of changes) {
    const ids = appended.map(({ recordId }) => recordId);
    appended.push(await ledger.append(makeRecord(name, change(ids), clock)));
    clock.nowMs += stepMs;
  }
  await ledger.close();
  return appended;
}

/** What another program does to a database. Gives the rows. */
export function execute(sql: string, path = storeIn(directory).path): Record<string, unknown>[] {
  using database = new DatabaseSync(path);
  if (/^SELECT/.test(sql)) return database.prepare(sql).all();
  database.exec(sql);
  return [];
}

/** Removes a database with all of its files. */
export function removeDatabase(path: string): void {
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
}

/** Hashes of all files that have anything in them; an index of a log of writes says nothing. */
export function hashes(): Readonly<Record<string, string>> {
  const files = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isFile());
  const contents = files.map(({ name }) => [name, readFileSync(join(directory, name))] as const);
  const told = contents.filter(([name, bytes]) => bytes.length > 0 && !name.endsWith("-shm"));
  return Object.fromEntries(told.map(([name, bytes]) => [name, createHash("sha256").update(bytes).digest("hex")]));
}

/** Writes a file of the directory, its owner's alone unless said otherwise, and gives its path. */
export function fileOf(name: string, text: string, mode = 0o600): string {
  const path = join(directory, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { mode });
  return path;
}

/** A policy directory whose only set has the policies by file, beside one that allows everything. */
export function policiesOf(name: string, policies: Readonly<Record<string, string>> = {}): string {
  fileOf(`${name}/manifest.yaml`, 'platform: set\ntenants: { "*": set }\n', 0o644);
  const all = { "all.cedar": '@id("all") permit (principal, action, resource);', ...policies };
  for (const [file, text] of Object.entries(all)) fileOf(`${name}/set/${file}`, text, 0o644);
  return join(directory, name);
}

/** What erases without a question: the options of a script. */
export const erasing = ["--reason", "request 1", "--operator", "olga", "--yes"];

/** Runs a command. Resolves with what it wrote, and its exit code. */
export async function run(...commandLine: string[]): Promise<Written> {
  const { terminal, written } = captureTerminal();
  await runCommandLine(commandLine, terminal);
  return written;
}

/** The command fails, and says why: the text if it is whole lines, or else what is in it or matches. */
export async function refused(
  command: Promise<Pick<Written, "code" | "err">>,
  problem: string | RegExp,
  exitCode = 1,
): Promise<void> {
  const { code, err } = await command;
  const said = typeof problem === "string" ? expect.stringContaining(problem) : expect.stringMatching(problem);
  expect({ code, err }).toEqual({ code: exitCode, err: String(problem).endsWith("\n") ? problem : said });
}
