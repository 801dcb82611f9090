/** A tenant that the database does not get on with is felt by that tenant alone, for as long as the time limit and no longer. */
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type LogName, logNameOf } from "../../src/ledger/tlog/log-name.ts";
import type { PostgresStores } from "../../src/stores/postgres/open-ledger.ts";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { type PostgresFixture, postgresFixture } from "./ledger-postgres-fixture.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SlowProxy, slowProxy } from "./slow-proxy.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const timeoutMs = 2_500;
/** Far less than a step that has a time limit of its own would take besides, and enough for a busy machine. */
const marginMs = 700;
const poolSize = 10;
const refusal = { reason: "store_unavailable" };
const stuck = Array.from({ length: 2 * poolSize }, (_, at) => tenant(`stuck-${at}`));
const well = tenant("well");

let server: PostgresServer;
let fixture: PostgresFixture;
let stores: PostgresStores;
let holder: Client;
let lines: { readonly stuck?: string }[];

beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());
beforeEach(async () => {
  fixture = await postgresFixture(server);
  lines = [];
  const logger = { warn: (fields: object) => void lines.push(fields) };
  stores = await fixture.openStores({ clock, random, timeoutMs, poolSize, logger });
  for (const tenantId of [...stuck, well]) await append(tenantId);
  // Whoever holds these rows and goes away, or a node that answers no more.
  holder = new Client({ connectionString: fixture.url });
  await holder.connect();
  await holder.query("BEGIN");
  await holder.query("SELECT FROM log_heads WHERE tenant_id LIKE 'stuck-%' FOR UPDATE");
});
afterEach(async () => {
  await holder.end();
  await stores.ledger.close();
  await fixture.remove();
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

test("twice as many stuck tenants as connections hold up nobody else, and are named", { timeout: 60_000 }, async () => {
  let isOver = false;
  const waiting = Promise.all(stuck.map((tenantId) => timed(append(tenantId)))).finally(() => {
    isOver = true;
  });
  let appended = 0;
  for (; !isOver; appended++) {
    await append(well);
    if (appended % 16 === 0) await stores.ledger.check();
  }
  // Each of them took its share of the time: at worst they would have waited for all of it.
  expect(appended).toBeGreaterThan(16);
  for (const { error } of await waiting) expect(error).toMatchObject(refusal);
  expect(new Set(stores.stuck())).toEqual(new Set(stuck));
  expect(new Set(lines.flatMap((line) => line.stuck ?? []))).toEqual(new Set(stuck));
  await holder.query("ROLLBACK");
  for (const tenantId of stuck) await append(tenantId);
  expect(stores.stuck()).toEqual([]);
});

test("reads of a tenant that hang hold up nobody else's", { timeout: 60_000 }, async () => {
  await holder.query("ROLLBACK");
  await holder.query("BEGIN");
  // Reads wait for nothing but this.
  await holder.query("LOCK TABLE kept_answers IN ACCESS EXCLUSIVE MODE");
  const hanging = stuck.map((tenantId) => {
    const idempotency = { scope: "a".repeat(64), payloadDigest: "sha256:1", answer: {} };
    return timed(stores.ledger.append(makeRecord(tenantId, { idempotency })));
  });
  let isOver = false;
  const ended = Promise.all(hanging).finally(() => {
    isOver = true;
  });
  let found = 0;
  const { recordId } = await append(well);
  for (; !isOver; found++) expect(await stores.ledger.find(well, recordId)).toHaveProperty("kind");
  expect(found).toBeGreaterThan(16);
  for (const { error } of await ended) expect(error).toMatchObject(refusal);
});

describe("one time limit holds for all that is waited for", () => {
  const limitMs = 1_600;
  const [first = well] = stuck;
  let proxy: SlowProxy;
  let slow: PostgresStores;
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
    const late = (await Promise.all(ended)).filter(({ tookMs }) => tookMs > limitMs + marginMs);
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
      search: () => ledger.search(log, { terms: [], limit: 1 }),
      attempt: () => shared.takeAttempt([{ tenantId: well, counter: "a", maximum: 1, windowMs: 60_000 }]),
      proof: () => shared.firstUse({ tenantId: well, proof: "a" }, laterMs),
      "another proof of the tenant": () => shared.firstUse({ tenantId: well, proof: "b" }, laterMs),
    };
  };
  beforeEach(async () => {
    proxy = await slowProxy(server.port);
    log = logNameOf((await append(well)).log);
  });
  afterEach(async () => {
    proxy.delayMs = 0;
    proxy.letGo();
    await slow.ledger.close();
    await proxy.close();
  });

  test.each([20, 2])("a connect, one of %i connections, and every statement", async (size) => {
    await openSlow(size);
    proxy.delayMs = limitMs * 0.4;
    await expectInTime(operations());
  });

  test("a write with others, and then the lock of its tenant's head", async () => {
    await openSlow(4);
    proxy.delayMs = limitMs * 0.4;
    await expectInTime({ append: () => slow.ledger.append(makeRecord(first)) });
  });
});

test("whoever waits is told when the time limit is over, whatever it was spent on", { timeout: 60_000 }, async () => {
  const [first = well] = stuck;
  const early = timed(append(first));
  const behind = Array.from({ length: 3 }, () => timed(append(first)));
  const answers = await Promise.all([early, ...behind, timed(stores.ledger.checkpoint("0".repeat(32)))]);
  for (const { tookMs, error } of answers.slice(0, -1)) {
    expect(error).toMatchObject(refusal);
    expect(tookMs).toBeLessThan(timeoutMs + marginMs);
  }
  expect(answers.at(-1)?.error).toBeUndefined();
});
