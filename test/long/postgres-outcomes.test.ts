/** What a database that fails costs: never an acknowledged record, never an index, and only for as long as it fails. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import { openPostgresArchive } from "../../src/stores/postgres/backend.ts";
import type { ServiceStores } from "../../src/stores/sql/backend.ts";
import { type PostgresFixture, postgresFixture } from "../contract/ledger-postgres-fixture.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../contract/ledger-records.ts";
import { expectGapless } from "../contract/ledger-suite.ts";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { startTcpProxy, type TcpProxy } from "../harness/tcp-proxy.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const refused = { status: "rejected", reason: { reason: "store_unavailable", details: { retryAfterSeconds: 1 } } };

let server: PostgresServer;
let fixture: PostgresFixture;
let stores: ServiceStores;

beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());
beforeEach(async () => {
  fixture = await postgresFixture(server);
});
afterEach(async () => {
  await stores.ledger.close();
  await fixture.remove();
});

const append = (): Promise<Appended> => stores.ledger.append(makeRecord(alice));

async function settled(work: Promise<unknown>): Promise<PromiseSettledResult<unknown> | undefined> {
  return (await Promise.allSettled([work]))[0];
}

/** All that was acknowledged is there, in one history that verifies. */
async function expectSound(acknowledged: readonly Appended[], size: number): Promise<void> {
  await expectGapless(fixture, "alice", size);
  for (const { recordId } of acknowledged)
    expect(await stores.ledger.find(alice, recordId)).toMatchObject({ record_id: recordId });
  const archive = await openPostgresArchive({ target: fixture.target, anchorPath: undefined });
  try {
    for (const head of await archive.logs()) expect(await auditLog(archive, head)).not.toHaveProperty("problem");
  } finally {
    await archive.close();
  }
}

describe("a synchronous standby that does not answer", () => {
  beforeEach(async () => {
    stores = await fixture.openStores({ clock, random, timeoutMs: 1_000 });
  });
  afterEach(async () => {
    await server.query("ALTER SYSTEM RESET synchronous_standby_names");
    await server.query("SELECT pg_reload_conf()");
  });

  async function setStandby(name: string): Promise<void> {
    await server.query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`);
    await server.query("SELECT pg_reload_conf()");
    await vi.waitFor(async () =>
      expect(await server.query("SHOW synchronous_standby_names", fixture.url)).toEqual([
        { synchronous_standby_names: name },
      ]),
    );
  }

  test("acknowledges nothing, although the primary committed it; afterwards the log continues", {
    timeout: 30_000,
  }, async () => {
    const idempotency = { scope: "a".repeat(64), payloadDigest: "sha256:1", answer: {} };
    const first = await append();
    const other = await fixture.openStores({ clock, random: seededRandom("other"), timeoutMs: 1_000 });
    await setStandby("nobody");
    expect(await settled(stores.ledger.append(makeRecord(alice, { idempotency })))).toMatchObject(refused);
    await expectGapless(fixture, "alice", 3); // the server has it; no caller knows
    // A retry finds what was kept, and does not believe it either, on whichever replica.
    for (const { ledger } of [stores, other])
      expect(await settled(ledger.append(makeRecord(alice, { idempotency })))).toMatchObject(refused);
    expect(await settled(stores.ledger.checkpoint(first.log.slice(-32)))).toMatchObject(refused);
    expect(await settled(stores.ledger.check())).toMatchObject(refused);
    expect(await settled(stores.shared.firstUse({ tenantId: alice, proof: "p" }, clock.now() + 1))).toMatchObject(
      refused,
    );
    await setStandby("");
    const retried = await stores.ledger.append(makeRecord(alice, { idempotency }));
    expect(retried).toMatchObject({ leafIndex: 2, earlierAnswer: {} });
    const next = await append();
    expect(next.leafIndex).toBe(3);
    expect(await stores.ledger.checkpoint(first.log.slice(-32))).toContain("\n4\n");
    await other.ledger.close();
    await expectSound([first, retried, next], 4);
  });

  test("a cancelled wait for the standby is no acknowledgement", { timeout: 30_000 }, async () => {
    await stores.ledger.close();
    stores = await fixture.openStores({ clock, random, timeoutMs: 20_000 });
    const first = await append();
    await setStandby("nobody");
    const waiting = settled(append());
    await vi.waitFor(
      async () => {
        const rows = await server.query(
          "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
        );
        expect(rows).toHaveLength(1);
      },
      { timeout: 10_000, interval: 20 },
    );
    expect(await waiting).toMatchObject(refused);
    await setStandby("");
    await expectSound([first, await append()], 4);
  });
});

describe("a connection that is cut", () => {
  let proxy: TcpProxy;
  beforeEach(async () => {
    proxy = await startTcpProxy(server.port);
    stores = await fixture.openStores({ clock, random, target: { ...fixture.target, port: proxy.port } });
  });
  afterEach(() => proxy.close());

  test("while a statement runs is replaced, and the statement retried", async () => {
    const first = await append();
    proxy.cutBefore("lock_head");
    const second = await append();
    expect(proxy.cuts).toBe(1);
    await expectSound([first, second], 3);
  });

  test("before a commit arrives leaves no record, and nothing is acknowledged", async () => {
    const first = await append();
    proxy.cutBefore("COMMIT\0");
    expect(await settled(append())).toMatchObject(refused);
    const second = await append();
    expect(second.leafIndex).toBe(2);
    await expectSound([first, second], 3);
  });

  test("after a commit arrived leaves an unacknowledged record", async () => {
    const first = await append();
    proxy.cutAfter("COMMIT\0");
    expect(await settled(append())).toMatchObject(refused);
    await expectGapless(fixture, "alice", 3);
    const second = await append();
    expect(second.leafIndex).toBe(3);
    await expectSound([first, second], 4);
  });
});

describe("a database", () => {
  beforeEach(async () => {
    stores = await fixture.openStores({ clock, random, timeoutMs: 1_000 });
  });

  test("with a locked head refuses that tenant in bounded time, and serves others meanwhile", async () => {
    const first = await append();
    const locker = fixture.query("BEGIN; SELECT 1 FROM log_heads FOR UPDATE; SELECT pg_sleep(2); COMMIT");
    await vi.waitFor(async () =>
      expect(await server.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).toHaveLength(1),
    );
    const [own, other] = await Promise.all([
      settled(append()),
      settled(stores.ledger.append(makeRecord(tenant("bob")))),
    ]);
    expect(own).toMatchObject(refused);
    expect(other).toMatchObject({ status: "fulfilled" });
    await locker;
    await expectSound([first, await append()], 3);
  });

  test("that crashes loses nothing acknowledged, and is used again once it is back", {
    timeout: 60_000,
  }, async () => {
    const acknowledged = [await append(), await append()];
    await server.kill();
    expect(await settled(append())).toMatchObject(refused);
    expect(await settled(stores.ledger.check())).toMatchObject(refused);
    await server.restart();
    await stores.ledger.check();
    acknowledged.push(await append());
    await expectSound(acknowledged, 4);
  });
});
