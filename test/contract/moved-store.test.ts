/** A store whose files are deleted, replaced or moved while a ledger has them open. */
import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { StoredLedger } from "../../src/ledger/append/ledger.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SqlitePlace, sqlitePlace } from "./ledger-sqlite-place.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const refusal = {
  reason: "store_unavailable",
  message: "The store's file was deleted, moved or replaced.",
};
const incompatible = { name: "IncompatibleStoreError" };

let place: SqlitePlace;
let ledger: StoredLedger;
let lines: { readonly cause?: string }[];
let acknowledged: string[];

beforeEach(async () => {
  place = sqlitePlace();
  lines = [];
  acknowledged = [];
  await open();
  for (let count = 0; count < 3; count++) await append();
});
afterEach(async () => {
  await ledger.close();
  await place.remove();
});

async function open(): Promise<void> {
  ledger = await place.open({ clock, random, logger: { warn: (fields) => void lines.push(fields) } });
}

async function append(): Promise<void> {
  acknowledged.push((await ledger.append(makeRecord(alice))).recordId);
}

/** Puts another file, with the same bytes, in the place of one. */
function replace(path: string): void {
  copyFileSync(path, `${path}.new`);
  renameSync(`${path}.new`, path);
}

const data = () => dirname(place.path);
const elsewhere = () => join(data(), "..", "elsewhere");

const cases: readonly (readonly [what: string, happens: () => void])[] = [
  ["the file is deleted", () => unlinkSync(place.path)],
  [
    "the file is deleted with those beside it",
    () => {
      for (const end of ["", "-wal", "-shm"]) unlinkSync(place.path + end);
    },
  ],
  ["the file is replaced by a copy", () => replace(place.path)],
  [
    "the file is moved, and a link leads to it",
    () => {
      renameSync(place.path, `${place.path}.moved`);
      symlinkSync(`${place.path}.moved`, place.path);
    },
  ],
  ["the log of writes is deleted", () => unlinkSync(`${place.path}-wal`)],
  ["the log of writes is replaced", () => replace(`${place.path}-wal`)],
  ["the directory is renamed", () => renameSync(data(), elsewhere())],
  [
    "another directory takes its place",
    () => {
      renameSync(data(), elsewhere());
      mkdirSync(data());
      copyFileSync(join(elsewhere(), "platform.db"), place.path);
    },
  ],
  ["the anchor is deleted", () => unlinkSync(place.store.anchorPath)],
  ["the anchor is replaced", () => replace(place.store.anchorPath)],
];

describe.each(cases)("where %s", (_what, happens) => {
  test("no answer says recorded, the ledger is not ready, and a line says why, once", async () => {
    happens();
    await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
    await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
    await expect(ledger.check()).rejects.toMatchObject(refusal);
    await expect(ledger.keepPolicyRevision("sha256:1", "text")).rejects.toMatchObject(refusal);
    const told = lines.filter(({ cause }) => /deleted or moved away|replaced by another file/.test(cause ?? ""));
    expect(told).toHaveLength(1);
  });
});

test.each([
  ["the file", ""],
  ["the log of writes", "-wal"],
  ["the shared index", "-shm"],
  ["the anchor", ".anchor"],
  ["the anchor's log of writes", ".anchor-wal"],
])("an idle ledger is not ready, and appends nothing, once %s is deleted", async (_what, end) => {
  unlinkSync(place.path + end);
  await expect(ledger.check()).rejects.toMatchObject(refusal);
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
});

test("a file that is back in its place is served again, with what was acknowledged", async () => {
  renameSync(data(), elsewhere());
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
  renameSync(elsewhere(), data());
  await ledger.check();
  await append();
  await ledger.close();
  await open();
  for (const recordId of acknowledged)
    expect(await ledger.find(alice, recordId as Parameters<StoredLedger["find"]>[1])).toHaveProperty("kind");
  await place.verify();
});

test("what only the deleted log of writes had is brought into the file before anybody is refused", async () => {
  unlinkSync(`${place.path}-wal`);
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
  // As after a crash: the file alone is what is left.
  const left = `${place.path}.left`;
  copyFileSync(place.path, left);
  await ledger.close();
  for (const end of ["-wal", "-shm"]) rmSync(place.path + end, { force: true });
  renameSync(left, place.path);
  await open();
  for (const recordId of acknowledged)
    expect(await ledger.find(alice, recordId as Parameters<StoredLedger["find"]>[1])).toHaveProperty("kind");
});

test("a store behind a link is served, until the link leads elsewhere", async () => {
  await ledger.close();
  const link = join(data(), "..", "link");
  symlinkSync(data(), link);
  const linked = { ...place.store, path: join(link, "platform.db") };
  ledger = await place.open({ clock, random, ...linked });
  await append();
  await ledger.check();
  mkdirSync(elsewhere());
  copyFileSync(place.path, join(elsewhere(), "platform.db"));
  unlinkSync(link);
  symlinkSync(elsewhere(), link);
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
  await expect(ledger.check()).rejects.toMatchObject(refusal);
});

test("an older copy that takes the store's place is found, and the start says what to do", async () => {
  await ledger.close();
  const older = `${place.path}.older`;
  copyFileSync(place.path, older);
  await open();
  await append();
  renameSync(older, place.path);
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject(refusal);
  await expect(ledger.check()).rejects.toMatchObject(refusal);
  await ledger.close();
  for (const end of ["-wal", "-shm"]) rmSync(place.path + end, { force: true });
  await expect(open()).rejects.toMatchObject({
    ...incompatible,
    message: expect.stringMatching(/older copy[\s\S]*Put the newest copy of the store back/),
  });
});

test("a start without the store, beside its anchor, says so and makes nothing", async () => {
  await ledger.close();
  rmSync(place.path);
  await expect(open()).rejects.toMatchObject({ ...incompatible, message: expect.stringContaining("is missing") });
  expect(existsSync(place.path)).toBe(false);
});
