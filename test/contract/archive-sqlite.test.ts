/** Reading a store beside the ledger that writes it. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Ledger, RecordArchive } from "../../src/ledger/ports/ledger.ts";
import { openSqliteArchive } from "../../src/stores/sqlite/operators.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
let fixture: SqliteFixture;
let ledger: Ledger;
let archive: RecordArchive;

beforeEach(async () => {
  fixture = sqliteFixture();
  ledger = await fixture.open({ clock, random });
  archive = openSqliteArchive(fixture.store);
});
afterEach(async () => {
  await archive.close();
  await ledger.close();
  await fixture.remove();
});

test("what was kept of a policy revision is given back, the first that was kept under its name", async () => {
  await ledger.keepPolicyRevision("sha256:a", "first é");
  await ledger.keepPolicyRevision("sha256:a", "second");
  expect(await archive.policyRevision("sha256:a")).toBe("first é");
  expect(await archive.policyRevision("sha256:b")).toBeUndefined();
});

test("a record is found like the ledger finds it; another tenant's is unknown, an erased one erased", async () => {
  const record = makeRecord(tenant("alice"));
  await ledger.append(record);
  const { tenantId, recordId } = record;
  expect(await archive.find(tenantId, recordId)).toEqual(await ledger.find(tenantId, recordId));
  expect(await archive.find(tenant("bob"), recordId)).toBe("unknown");
  await fixture.deleteOpening(tenantId, recordId);
  await archive.close();
  archive = openSqliteArchive(fixture.store);
  expect(await archive.find(tenantId, recordId)).toBe("erased");
});

test("a damaged record is an error", async () => {
  const record = makeRecord(tenant("alice"));
  await ledger.append(record);
  await fixture.damage(record.tenantId, record.recordId);
  await expect(archive.find(record.tenantId, record.recordId)).rejects.toMatchObject({ reason: "internal" });
});
