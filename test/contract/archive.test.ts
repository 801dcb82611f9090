/** Reading a store beside the ledger that writes it. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import type { StoreArchive } from "../../src/ledger/ports/archive.ts";
import type { Ledger } from "../../src/ledger/ports/ledger.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { openPostgresArchive } from "../../src/stores/postgres/operators.ts";
import { postgresOfFile } from "../harness/postgres-of-file.ts";
import { erasureFixture } from "./erasure-postgres-fixture.ts";
import { sqliteErasureFixture } from "./erasure-sqlite-fixture.ts";
import type { ErasureFixture } from "./erasure-suite.ts";
import { postgresFixture, targetOf } from "./ledger-postgres-fixture.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const server = postgresOfFile();
let fixture: ErasureFixture;
let ledger: Ledger;
let archives: StoreArchive[];

afterEach(async () => {
  for (const archive of archives) await archive.close();
  await ledger.close();
  await fixture.remove();
});

async function open(): Promise<StoreArchive> {
  const archive = await fixture.archive();
  archives.push(archive);
  return archive;
}

async function append(records: number): Promise<void> {
  await Promise.all(Array.from({ length: records }, () => ledger.append(makeRecord(alice))));
}

const stores = [
  ["SQLite", async () => sqliteErasureFixture()],
  ["PostgreSQL", async () => erasureFixture(await postgresFixture(server))],
] as const;

async function begin(place: () => Promise<ErasureFixture>): Promise<void> {
  fixture = await place();
  ledger = await fixture.open({ clock, random });
  archives = [];
}

describe.each(stores)("%s", (_name, place) => {
  beforeEach(() => begin(place));

  test("what was kept of a policy revision is given back, the first that was kept under its name", async () => {
    await ledger.keepPolicyRevision("sha256:a", "first é");
    await ledger.keepPolicyRevision("sha256:a", "second");
    const archive = await open();
    expect(await archive.policyRevision("sha256:a")).toBe("first é");
    expect(await archive.policyRevision("sha256:b")).toBeUndefined();
  });

  test("a policy revision is kept from bytes that threads share", async () => {
    const bytes = Buffer.from('{"größe":"\u20ac"}', "utf8");
    const content = new Uint8Array(new SharedArrayBuffer(bytes.length));
    content.set(bytes);
    await ledger.keepPolicyRevision("sha256:bytes", content);
    expect(await (await open()).policyRevision("sha256:bytes")).toBe('{"größe":"\u20ac"}');
  });

  test("a record is found like the ledger finds it; another tenant's is unknown, an erased one erased", async () => {
    const { tenantId, recordId } = makeRecord(alice);
    await ledger.append(makeRecord(alice, { recordId }));
    const archive = await open();
    expect(await archive.find(tenantId, recordId)).toEqual(await ledger.find(tenantId, recordId));
    expect(await archive.find(tenant("bob"), recordId)).toBe("unknown");
    await fixture.deleteOpening(tenantId, recordId);
    expect(await (await open()).find(tenantId, recordId)).toBe("erased");
  });

  test("a damaged record is an error", async () => {
    const { tenantId, recordId } = makeRecord(alice);
    await ledger.append(makeRecord(alice, { recordId }));
    await fixture.damage(tenantId, recordId);
    await expect((await open()).find(tenantId, recordId)).rejects.toMatchObject({ reason: "internal" });
  });

  test("a log is walked from its first leaf to its last, and audited, while others append", async () => {
    await append(600);
    const archive = await open();
    const [head] = await archive.logs();
    await append(3);
    if (head === undefined) throw new Error("no log");
    expect(head.size).toBe(601);
    expect(await auditLog(archive, head)).toMatchObject({
      leaves: 601,
      erased: 0,
      root: new Uint8Array(head.root),
      rotations: [],
    });
    const indices = [];
    for await (const { leafIndex } of archive.entries(head, 200, 500)) indices.push(leafIndex);
    expect(indices).toEqual(Array.from({ length: 300 }, (_, position) => 200 + position));
    expect(await archive.tile(logNameOf(head.origin), { level: 0, index: 1, width: 256 })).toHaveLength(8192);
    expect(await archive.tile(logNameOf(head.origin), { level: 0, index: 2, width: 256 })).toBeUndefined();
  });

  test("damage is named by its leaf", async () => {
    await append(300);
    const [row] = (await fixture.rows("alice")).slice(77);
    await fixture.damage("alice", row?.recordId ?? "");
    const archive = await open();
    const [head] = await archive.logs();
    if (head === undefined) throw new Error("no log");
    expect((await auditLog(archive, head)).problem).toMatchObject({ leafIndex: 77 });
  });
});

test("without an anchor there is nothing to differ from, and a log may be signed", async () => {
  await begin(stores[1][1]);
  await append(1);
  const archive = await open();
  const [head] = await archive.logs();
  if (head === undefined) throw new Error("no log");
  expect(await archive.anchorProblems()).toEqual([]);
  expect(await archive.signable(head)).toEqual({ head });
  expect(await archive.signingKeys()).toHaveLength(1);
});

test("a database without the schema is refused", async () => {
  await begin(stores[1][1]);
  const target = targetOf(await server.createDatabase("empty"));
  await expect(openPostgresArchive({ target, anchorPath: undefined })).rejects.toThrow("run `migrate`");
});
