/** A store whose files are deleted, replaced or moved while a ledger has them open. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { RecordId } from "../../src/base/ids.ts";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import { FaultControl } from "./ledger-faulty-connection.ts";
import { recordKit, seededRandom, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");
const refusal = {
  reason: "store_unavailable",
  message: "The store's file was deleted, moved or replaced.",
};
const incompatible = { name: "IncompatibleStoreError" };

let fixture: SqliteFixture;
let ledger: ServiceLedger;
let lines: { readonly cause?: string; readonly role?: string }[];
let acknowledged: RecordId[];

beforeEach(async () => {
  fixture = sqliteFixture();
  lines = [];
  acknowledged = [];
  await open();
  for (let count = 0; count < 3; count++) await append();
});

async function open(): Promise<void> {
  ledger = await fixture.open({ clock, random, logger: { info() {}, warn: (fields) => void lines.push(fields) } });
}

async function append(): Promise<void> {
  acknowledged.push((await ledger.append(makeRecord(alice))).recordId);
}

/** Puts another file, with the same bytes, in the place of one. */
function replace(path: string): void {
  copyFileSync(path, `${path}.new`);
  renameSync(`${path}.new`, path);
}

const data = () => dirname(fixture.path);
const elsewhere = () => join(data(), "..", "elsewhere");

const cases: readonly (readonly [what: string, happens: () => void])[] = [
  ["the file is deleted", () => unlinkSync(fixture.path)],
  [
    "the file is deleted with those beside it",
    () => {
      for (const end of ["", "-wal", "-shm"]) unlinkSync(fixture.path + end);
    },
  ],
  ["the file is replaced by a copy", () => replace(fixture.path)],
  [
    "the file is moved, and a link leads to it",
    () => {
      renameSync(fixture.path, `${fixture.path}.moved`);
      symlinkSync(`${fixture.path}.moved`, fixture.path);
    },
  ],
  ["the log of writes is deleted", () => unlinkSync(`${fixture.path}-wal`)],
  ["the log of writes is replaced", () => replace(`${fixture.path}-wal`)],
  ["the directory is renamed", () => renameSync(data(), elsewhere())],
  [
    "another directory takes its place",
    () => {
      renameSync(data(), elsewhere());
      mkdirSync(data());
      copyFileSync(join(elsewhere(), "platform.db"), fixture.path);
    },
  ],
  ["the anchor is deleted", () => unlinkSync(fixture.store.anchorPath)],
  ["the anchor is replaced", () => replace(fixture.store.anchorPath)],
];

test.each(cases)(
  "if %s, no answer says recorded, the ledger is not ready, and one log line of a thread says why",
  async (_what, happens) => {
    happens();
    await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
    await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
    await expect(ledger.check()).rejects.toMatchObject(refusal);
    await expect(ledger.keepPolicyRevision("sha256:1", "text")).rejects.toMatchObject(refusal);
    const told = lines.filter(({ cause }) => /deleted or moved away|replaced by another file/.test(cause ?? ""));
    // The reader may have found it too.
    const roles = new Set(told.map(({ role }) => role));
    expect([roles.has("writer"), told.length]).toEqual([true, roles.size]);
  },
);

test.each([
  ["the file", ""],
  ["the log of writes", "-wal"],
  ["the shared index", "-shm"],
  ["the anchor", ".anchor"],
  ["the anchor's log of writes", ".anchor-wal"],
])("an idle ledger becomes unready, and appends nothing, once %s is deleted", async (_what, end) => {
  unlinkSync(fixture.path + end);
  await expect(ledger.check()).rejects.toMatchObject(refusal);
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
});

test("a file that is back in its place is served again, with all acknowledged records", async () => {
  renameSync(data(), elsewhere());
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
  renameSync(elsewhere(), data());
  await ledger.check();
  await append();
  await ledger.close();
  await open();
  for (const recordId of acknowledged) expect(await ledger.find(alice, recordId)).toHaveProperty("kind");
  await fixture.verify();
});

test("records of a deleted write-ahead log are copied into the file before any refusal", async () => {
  unlinkSync(`${fixture.path}-wal`);
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
  // As after a crash: the file alone is what is left.
  const left = `${fixture.path}.left`;
  copyFileSync(fixture.path, left);
  await ledger.close();
  for (const end of ["-wal", "-shm"]) rmSync(fixture.path + end, { force: true });
  renameSync(left, fixture.path);
  await open();
  for (const recordId of acknowledged) expect(await ledger.find(alice, recordId)).toHaveProperty("kind");
});

test("a store behind a link is served until the link changes", async () => {
  await ledger.close();
  const link = join(data(), "..", "link");
  symlinkSync(data(), link);
  const linked = { ...fixture.store, path: join(link, "platform.db") };
  ledger = await fixture.open({ clock, random, ...linked });
  await append();
  await ledger.check();
  mkdirSync(elsewhere());
  copyFileSync(fixture.path, join(elsewhere(), "platform.db"));
  unlinkSync(link);
  symlinkSync(elsewhere(), link);
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
  await expect(ledger.check()).rejects.toMatchObject(refusal);
});

describe("if another store's bytes are written over the open file", () => {
  /** Opened by a writer that fails when the test says so, and then opens the store again. */
  let control: FaultControl;
  let bytes: Buffer;

  beforeEach(async () => {
    await ledger.close();
    control = new FaultControl();
    const logger = { info() {}, warn: (fields: object) => void lines.push(fields) };
    ledger = await fixture.open({ clock, random, logger, setup: control.setup });
    const other = sqliteFixture();
    const ledgerOfOther = await other.open({ clock, random: seededRandom("other") });
    await ledgerOfOther.append(makeRecord(alice));
    await ledgerOfOther.close();
    bytes = readFileSync(other.path);
  });

  test.each([
    ["whose connection failed", "failBefore"],
    ["whose thread ended", "dieBefore"],
  ] as const)("a writer %s serves nothing from it, and serves again once it is back", async (_what, fault) => {
    await append();
    // All that is in the log of writes comes into the file: what is read is read from there.
    fixture.query("PRAGMA wal_checkpoint(TRUNCATE)");
    const own = readFileSync(fixture.path);
    control.arm(fault, 1);
    await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject({ reason: "store_unavailable" });
    // The same inode: nothing but the store's id tells.
    writeFileSync(fixture.path, bytes);
    await expect
      .poll(async () => {
        await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject({ reason: "store_unavailable" });
        return lines.filter(({ cause }) => /is another store by now/.test(cause ?? "")).length;
      })
      .toBeGreaterThan(0);
    await expect(ledger.check()).rejects.toMatchObject({ reason: "store_unavailable" });
    expect(readFileSync(fixture.path).equals(bytes)).toBe(true);
    writeFileSync(fixture.path, own);
    await vi.waitFor(append, { timeout: 10_000 });
    await ledger.close();
    await fixture.verify();
    expect(await fixture.rows(alice)).toHaveLength(acknowledged.length + 1);
  });
});

test("a start without the store, beside its anchor, reports it and creates nothing", async () => {
  await ledger.close();
  rmSync(fixture.path);
  await expect(open()).rejects.toMatchObject({ ...incompatible, message: expect.stringContaining("is missing") });
  expect(existsSync(fixture.path)).toBe(false);
});

test("a start with a ledger key makes a new store in a folder that is there only, and says so", async () => {
  await ledger.close();
  const path = join(elsewhere(), "platform.db");
  const said: string[] = [];
  const logger = { info: (_: object, message: string) => void said.push(message), warn() {} };
  const openElsewhere = () => fixture.open({ clock, random, logger, path, anchorPath: `${path}.anchor` });
  const message = expect.stringContaining(`the folder ${elsewhere()} is missing`);
  await expect(openElsewhere()).rejects.toMatchObject({ ...incompatible, message });
  expect(existsSync(elsewhere())).toBe(false);
  mkdirSync(elsewhere());
  for (const _ of ["new", "known"]) await (await openElsewhere()).close();
  expect(said).toEqual(["new store"]);
});
