/** A tenant whose store operations fail is felt by that tenant alone, for as long as the time limit and no longer. */
import type { Client } from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { storeReadiness } from "../../src/app/stores.ts";
import type { RecordId, TenantId } from "../../src/base/ids.ts";
import { systemTimers } from "../../src/base/timers.ts";
import { takeAttempt } from "../../src/domain/session.ts";
import { type LogName, logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { runChecks } from "../../src/ops/readiness.ts";
import type { ServiceStores } from "../../src/stores/sql/backend.ts";
import { type PostgresFixture, postgresFixture } from "../contract/ledger-postgres-fixture.ts";
import { recordKit, seededRandom, tenant } from "../contract/ledger-records.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { startTcpProxy, type TcpProxy } from "../harness/tcp-proxy.ts";

const { clock, random, makeRecord } = recordKit();
const timeoutMs = 3_500;
/** On a busy machine too, work ends before this: a step with a second time limit would take as long again. */
const inTimeMs = (limitMs: number) => 1.9 * limitMs;
const poolSize = 10;
const refusal = { reason: "store_unavailable" };
const stuck = Array.from({ length: 2 * poolSize }, (_, at) => tenant(`stuck-${at}`));
const well = tenant("well");

let fixture: PostgresFixture;
let stores: ServiceStores;
let holder: Client;
let lines: { readonly stuck?: string }[];

const server = await forFile(sharedPostgres());
beforeEach(async () => {
  fixture = await postgresFixture(server);
  lines = [];
  const logger = { info() {}, warn: (fields: object) => void lines.push(fields) };
  stores = await fixture.openStores({ clock, random, timeoutMs, poolSize, logger });
  for (const tenantId of [...stuck, well]) await append(tenantId);
  // A session that holds these rows and goes away, or a node that answers no more.
  holder = await fixture.holdHeads("stuck-%");
});

const append = (tenantId: typeof well) => stores.ledger.append(makeRecord(tenantId));

/** What became of it, and how long that took. */
async function timed(work: Promise<unknown>): Promise<{ readonly tookMs: number; readonly error: unknown }> {
  const startedMs = performance.now();
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return { tookMs: performance.now() - startedMs, error };
}

/** Does work again and again until the other work is over. Resolves with how often, and the longest that it took. */
async function until(
  over: Promise<unknown>,
  work: () => Promise<unknown>,
): Promise<{ times: number; longestMs: number }> {
  let isOver = false;
  void over.finally(() => {
    isOver = true;
  });
  let times = 0;
  let longestMs = 0;
  for (; !isOver; times++) {
    const { tookMs, error } = await timed(work());
    expect(error).toBeUndefined();
    longestMs = Math.max(longestMs, tookMs);
  }
  return { times, longestMs };
}

function readinessOf({ ledger, stuck }: ServiceStores) {
  return runChecks([storeReadiness({ ledger, stuck })], systemTimers);
}

describe.each(["one server", "a cluster"])("twice as many stuck tenants as connections, on %s", (kind) => {
  let proxy: TcpProxy;
  let log: LogName;
  let recordId: RecordId;

  beforeEach(async () => {
    proxy = await forTest(startTcpProxy(server.port));
    ({ recordId } = await append(well));
    log = logNameOf((await append(well)).log);
    if (kind === "a cluster") await pretendCluster();
    await stores.ledger.close();
    const logger = { info() {}, warn: (fields: object) => void lines.push(fields) };
    const target = { ...fixture.target, port: proxy.port };
    stores = await fixture.openStores({ clock, random: seededRandom("proxied"), target, timeoutMs, poolSize, logger });
  });
  afterEach(() => proxy.letGo());

  type Work = (tenantId: TenantId) => Promise<unknown>;
  const appends: Work = (tenantId) => append(tenantId);
  const lookups: Work = (tenantId) => stores.ledger.find(tenantId, recordId);
  const both: Work = (tenantId) => (stuck.indexOf(tenantId) % 2 === 0 ? appends : lookups)(tenantId);
  const cases: Readonly<Record<string, [string, Work][]>> = {
    // Where a write of all who wait hangs on one server, it hangs for all of them.
    "one server": [
      ["whose heads are locked", appends],
      ["whose lookups hang", lookups],
    ],
    "a cluster": [["whose node hangs", both]],
  };

  test.each(cases[kind] ?? [])("%s, delay no other tenant, and are named", { timeout: 60_000 }, async (what, work) => {
    if (what !== "whose heads are locked") {
      await holder.query("ROLLBACK");
      // What a coordinator asks of the node that these are on.
      proxy.hang("stuck-");
    }
    const waiting = Promise.all(stuck.map((tenantId) => timed(work(tenantId))));
    const others = await Promise.all([
      until(waiting, () => append(well)),
      until(waiting, () => stores.ledger.find(well, recordId)),
      until(waiting, () => stores.ledger.checkpoint(log)),
      until(waiting, () => stores.ledger.check()),
    ]);
    // Who waited behind a stuck tenant would wait for its whole time limit.
    for (const { longestMs } of others) expect(longestMs).toBeLessThan(timeoutMs);
    for (const { error, tookMs } of await waiting) {
      expect(error).toMatchObject(refusal);
      expect(tookMs).toBeLessThan(inTimeMs(timeoutMs));
    }
    expect(new Set(stores.stuck())).toEqual(new Set(stuck));
    expect(await readinessOf(stores)).toMatchObject({
      ready: true,
      checks: [{ reason: expect.stringMatching(/store operations fail for stuck-\d+, .* and 17 more/) }],
    });
    expect(new Set(lines.flatMap((line) => line.stuck ?? []))).toEqual(new Set(stuck));
    await holder.query("ROLLBACK");
    proxy.letGo();
    // Once, or more often where the machine was slow.
    for (const tenantId of stuck)
      do await work(tenantId);
      while (stores.stuck().includes(tenantId));
    expect(stores.stuck()).toEqual([]);
  });
});

/** Makes a coordinator of the database, as far as a gateway asks. What it asks of nodes this server does. */
async function pretendCluster(): Promise<void> {
  await fixture.query("CREATE TABLE pg_dist_node AS SELECT 1 AS nodeid, 'node' AS nodename, 1 AS nodeport");
  await fixture.query("CREATE TABLE pg_dist_partition AS SELECT 'log_heads'::regclass AS logicalrelid");
  await fixture.query(`
    CREATE FUNCTION run_command_on_all_nodes(command text) RETURNS TABLE (nodeid int, success boolean, result text)
    LANGUAGE sql AS $$ SELECT 1, true, 'on' $$`);
  await fixture.query(`
    INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
    SELECT 90000, 'citus', extowner, extnamespace, false, '0' FROM pg_extension LIMIT 1`);
}

describe("one time limit covers", () => {
  const limitMs = 1_600;
  const [first = well] = stuck;
  let proxy: TcpProxy;
  let slow: ServiceStores;
  let log: LogName;

  const openSlow = async (size: number) => {
    const target = { ...fixture.target, port: proxy.port };
    slow = await fixture.openStores({
      clock,
      random: seededRandom("slow"),
      target,
      timeoutMs: limitMs,
      poolSize: size,
    });
  };
  const expectInTime = async (works: Readonly<Record<string, () => Promise<unknown>>>) => {
    const ended = Object.entries(works).map(async ([name, work]) => ({ name, ...(await timed(work())) }));
    const late = (await Promise.all(ended)).filter(({ tookMs }) => tookMs > inTimeMs(limitMs));
    expect(late).toEqual([]);
  };
  /** What is asked of the stores, by calls and by those who read logs. */
  const operations = (): Readonly<Record<string, () => Promise<unknown>>> => {
    const { ledger, shared } = slow;
    const record = makeRecord(well);
    const laterMs = clock.now() + 60_000;
    return {
      find: () => ledger.find(well, record.recordId),
      append: () => ledger.append(record),
      "another append of the tenant": () => ledger.append(makeRecord(well)),
      check: () => ledger.check(),
      checkpoint: () => ledger.checkpoint(log),
      tile: () => ledger.tile(log, "0/000.p/1"),
      registrations: () => ledger.registrations(well, ["digest sha256:1"]),
      search: () => ledger.search({ tenantId: well, terms: [], limit: 1 }),
      attempt: () => takeAttempt(shared, [{ tenantId: well, counter: "a", maximum: 1, windowMs: 60_000 }]),
      proof: () => shared.firstUse({ tenantId: well, proof: "a" }, laterMs),
      "another proof of the tenant": () => shared.firstUse({ tenantId: well, proof: "b" }, laterMs),
    };
  };
  beforeEach(async () => {
    proxy = await forTest(startTcpProxy(server.port));
    log = logNameOf((await append(well)).log);
  });
  afterEach(() => {
    proxy.delayMs = 0;
    proxy.letGo();
  });

  test.each([20, 2])("a connect, one of %i connections, and every statement", async (size) => {
    await openSlow(size);
    proxy.delayMs = limitMs * 0.4;
    await expectInTime(operations());
  });

  test("a shared write, and then the lock of its tenant's head", async () => {
    await openSlow(4);
    proxy.delayMs = limitMs * 0.4;
    await expectInTime({ append: () => slow.ledger.append(makeRecord(first)) });
  });

  test("a lock, behind others of the tenant", async () => {
    await openSlow(4);
    const one = () => slow.ledger.append(makeRecord(first));
    await expectInTime({
      one,
      two: one,
      three: one,
      "a log that there is not": () => slow.ledger.checkpoint("0".repeat(32)),
    });
  });

  test("connections that return no data: the service becomes unready, and recovers by itself", async () => {
    await openSlow(4);
    const readiness = () => readinessOf(slow);
    await Promise.all(Object.values(operations()).map((work) => work()));
    expect(await readiness()).toMatchObject({ ready: true });
    proxy.hang();
    await expectInTime({
      ...operations(),
      readiness: async () => expect(await readiness()).toMatchObject({ ready: false }),
    });
    proxy.letGo();
    while (!(await readiness()).ready);
    await Promise.all(Object.values(operations()).map((work) => work()));
  });
});
