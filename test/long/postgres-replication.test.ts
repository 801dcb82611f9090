/** What the loss of a primary costs that has a synchronous standby: real servers, real streaming replication. */
import { beforeEach, expect, test, vi } from "vitest";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { openPostgresArchive } from "../../src/stores/postgres/backend.ts";
import type { ServiceStores } from "../../src/stores/sql/backend.ts";
import { type PostgresFixture, postgresFixture } from "../contract/ledger-postgres-fixture.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../contract/ledger-records.ts";
import { expectOneHistory, startWriter, type Writer } from "../contract/ledger-writers.ts";
import { forTest } from "../harness/lifetimes.ts";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { startStandby } from "../harness/postgres-standby.ts";
import { startTcpProxy, type TcpProxy } from "../harness/tcp-proxy.ts";

const clock = manualClock();
const tenants = ["alice", "bob", "carol", "dave", "erin"].map(tenant);
const [alice] = tenants as [(typeof tenants)[number]];
const refused = { status: "rejected", reason: { reason: "store_unavailable" } };
/** What each writer adds before something happens, and again after it. */
const records = 12;
/** Appends of each writer that end, one way or the other, while it lasts. */
const appends = 4;
const patience = { timeout: 15_000, interval: 20 };

let primary: PostgresServer;
let standby: PostgresServer;
/** Where the standby finds the primary. */
let link: TcpProxy;
/** Where the replicas find the database. */
let address: TcpProxy;
let fixture: PostgresFixture;
let writers: Writer[];

beforeEach(async () => {
  writers = [];
  primary = await forTest(startPostgres({ settings: { wal_keep_size: "128MB" } }));
  fixture = await postgresFixture(primary);
  link = await forTest(startTcpProxy(primary.port));
  address = await forTest(startTcpProxy(primary.port));
  standby = await forTest(startStandby(primary, { name: "standby", primaryPort: link.port }));
  await primary.query("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
  await primary.query("SELECT pg_reload_conf()");
  await vi.waitFor(
    async () =>
      expect(await primary.query("SELECT sync_state FROM pg_stat_replication")).toEqual([{ sync_state: "sync" }]),
    patience,
  );
}, 60_000);

/** Opens a replica that finds the database at a port of loopback. */
function openStores(name: string, port: number, timeoutMs = 500): Promise<ServiceStores> {
  return fixture.openStores({ clock, random: seededRandom(name), timeoutMs, target: { ...fixture.target, port } });
}
const openReplica = async (...place: Parameters<typeof openStores>) => (await openStores(...place)).ledger;

async function startFourWriters(): Promise<void> {
  for (const name of ["first", "second", "third", "fourth"]) {
    const ledger = await openReplica(name, address.port);
    const makeRecord = recordMaker(clock, seededRandom(`records of ${name}`));
    writers.push(await forTest(startWriter({ name, ledger, tenants, makeRecord })));
  }
}

/** Waits until each writer has seen so many more of the counted appends. */
async function everyWriter(countOf: (writer: Writer) => number, more: number): Promise<void> {
  const before = writers.map(countOf);
  await vi.waitFor(() => {
    for (const [at, writer] of writers.entries())
      expect(countOf(writer)).toBeGreaterThanOrEqual((before[at] as number) + more);
  }, patience);
}

/** Waits until so many commits at least wait for the standby. */
async function waitForCommits(count: number): Promise<void> {
  const waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  await vi.waitFor(async () => expect((await primary.query(waiting)).length).toBeGreaterThanOrEqual(count), patience);
}

const acknowledgedBy = ({ acknowledged }: Writer) => acknowledged.length;
const answersTo = ({ acknowledged, refusals }: Writer) => acknowledged.length + refusals;

/** The address moves first: what it leads to is still a standby, which serves no calls. */
async function failOver(): Promise<void> {
  address.moveTo(standby.port);
  await everyWriter(({ refusals }) => refusals, appends);
  expect(await standby.query("SELECT pg_promote()")).toEqual([{ pg_promote: true }]);
  await everyWriter(acknowledgedBy, records);
}

/** Resolves with all appends that they have seen. */
async function stopWriters(): Promise<readonly Appended[]> {
  await Promise.all(writers.map((writer) => writer.stop()));
  return writers.flatMap(({ acknowledged }) => acknowledged);
}

/** On the server that the address leads to. */
async function expectNothingLost(acknowledged: readonly Appended[]): Promise<void> {
  const target = { ...fixture.target, port: address.port };
  await using archive = await openPostgresArchive({ target, anchorPath: undefined });
  await expectOneHistory(archive, acknowledged, fixture.verifier);
}

async function settled(work: Promise<unknown>): Promise<PromiseSettledResult<unknown> | undefined> {
  return (await Promise.allSettled([work]))[0];
}

test("a primary that is killed under four writers loses nothing acknowledged", {
  timeout: 60_000,
}, async () => {
  await startFourWriters();
  await everyWriter(acknowledgedBy, records);
  // Commits are under way, on the primary's disk, that the standby will never have.
  link.hang();
  await waitForCommits(3);
  await primary.kill();
  link.moveTo(undefined);
  await failOver();
  await expectNothingLost(await stopWriters());
});

test("a primary that is cut off from its standby acknowledges nothing more, although it runs on", {
  timeout: 60_000,
}, async () => {
  const straggler = await openReplica("straggler", primary.port);
  const makeRecord = recordMaker(clock, seededRandom("records of the straggler"));
  const first = await straggler.append(makeRecord(alice));
  await startFourWriters();
  await everyWriter(acknowledgedBy, records);
  link.moveTo(undefined);
  await everyWriter(answersTo, appends);
  await failOver();
  await expectNothingLost([first, ...(await stopWriters())]);
  // Nor is one told anything that still reaches the old primary.
  expect(await settled(straggler.append(makeRecord(alice)))).toMatchObject(refused);
  expect(await settled(straggler.check())).toMatchObject(refused);
});

test("a standby that hangs delays every acknowledgement until it continues", {
  timeout: 60_000,
}, async () => {
  const { ledger, shared } = await openStores("first", address.port);
  const other = await openReplica("other", address.port);
  const patient = await openReplica("patient", address.port, 20_000);
  const makeRecord = recordMaker(clock, seededRandom("records"));
  const idempotency = { scope: "a".repeat(64), payloadDigest: "sha256:1", answer: {} };
  const doubtful = makeRecord(alice, { idempotency });
  const first = await ledger.append(makeRecord(alice));
  const acknowledged = [first];
  const [receiver] = await standby.query("SELECT pid FROM pg_stat_wal_receiver");
  const pid = receiver?.pid as number;
  process.kill(pid, "SIGSTOP");
  try {
    // A retry finds what was kept, and does not believe it either, on whichever replica.
    for (const replica of [ledger, ledger, other])
      expect(await settled(replica.append(doubtful))).toMatchObject(refused);
    expect(await settled(ledger.check())).toMatchObject(refused);
    expect(await settled(ledger.checkpoint(logNameOf(first.log)))).toMatchObject(refused);
    const use = { tenantId: alice, proof: "p" };
    expect(await settled(shared.firstUse(use, clock.now() + 1))).toMatchObject(refused);
    const waiting = settled(patient.append(makeRecord(alice)));
    await waitForCommits(1);
    await primary.query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    expect(await waiting).toMatchObject(refused);
  } finally {
    process.kill(pid, "SIGCONT");
  }
  await ledger.check();
  acknowledged.push(await ledger.append(doubtful), await patient.append(makeRecord(alice)));
  await primary.kill();
  address.moveTo(standby.port);
  await standby.query("SELECT pg_promote()");
  acknowledged.push(await ledger.append(makeRecord(alice)), await patient.append(makeRecord(alice)));
  expect(acknowledged.map(({ leafIndex }) => leafIndex)).toEqual([1, 2, 4, 5, 6]);
  await expectNothingLost(acknowledged);
});
