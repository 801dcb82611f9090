/** Transactions of many tenants: what goes wrong for one of them is felt by that one alone. */
import { beforeEach, expect, test } from "vitest";
import type { TenantId } from "../../src/base/ids.ts";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../../src/ledger/ports/record.ts";
import { queriesOf } from "../../src/stores/postgres/connection/connection.ts";
import type { ServiceStores } from "../../src/stores/sql/backend.ts";
import { type PostgresFixture, postgresFixture } from "../contract/ledger-postgres-fixture.ts";
import { recordKit, seededRandom, tenant } from "../contract/ledger-records.ts";
import { expectOneHistory } from "../contract/ledger-writers.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { startPostgres } from "../harness/postgres.ts";
import { startTcpProxy, type TcpProxy } from "../harness/tcp-proxy.ts";

const { clock, random, makeRecord } = recordKit();
const names = Array.from({ length: 24 }, (_, at) => tenant(`tenant-${at}`));

let fixture: PostgresFixture;
let stores: ServiceStores;

const server = await forFile(startPostgres());
beforeEach(async () => {
  fixture = await postgresFixture(server);
  stores = await fixture.openStores({ clock, random, poolSize: 10 });
});

const append = (tenantId: TenantId, changes: Partial<NewRecord> = {}) =>
  stores.ledger.append(makeRecord(tenantId, changes));

test("retries of many tenants in one commit get each its own first answer", async () => {
  const call = (at: number) => {
    const scope = at.toString(16).padStart(64, "0");
    return append(names[at] as TenantId, {
      idempotency: { scope, payloadDigest: `sha256:${"d".repeat(64)}`, answer: { at } },
    });
  };
  const calls = names.map((_, at) => at);
  const first = await Promise.all(calls.map(call));
  const again = await Promise.all(calls.map(call));
  expect(again.map(({ recordId, earlierAnswer }) => [recordId, earlierAnswer])).toEqual(
    first.map(({ recordId }, at) => [recordId, { at }]),
  );
});

test("a tenant with an unsound log or a bad record fails alone", async () => {
  const taken = makeRecord(names[1] as TenantId);
  await Promise.all(names.map((name) => append(name)));
  await stores.ledger.append(taken);
  await fixture.query("UPDATE tiles SET hashes = sha256(hashes) WHERE tenant_id = 'tenant-0'");
  await stores.ledger.close();
  stores = await fixture.openStores({ clock, random: seededRandom("again"), poolSize: 10 });
  const round = (first?: NewRecord) =>
    names.map((name) => (first !== undefined && name === first.tenantId ? first : makeRecord(name)));
  const records = [...round(taken), ...round(), ...round()];
  const results = await Promise.allSettled(records.map((record) => stores.ledger.append(record)));
  expect(results.flatMap((result, at) => (result.status === "rejected" ? [[at, result.reason.reason]] : []))).toEqual([
    [0, "store_unavailable"],
    [1, "internal"],
    [names.length, "store_unavailable"],
    [2 * names.length, "store_unavailable"],
  ]);
});

test("after any fault, each log is gapless and has every acknowledged record exactly once", {
  timeout: 120_000,
}, async () => {
  const dice = diceOf("many tenants");
  const proxy = await forTest(startTcpProxy(server.port));
  const target = { ...fixture.target, port: proxy.port };
  const replicas = [
    stores,
    await fixture.openStores({ clock, random: seededRandom("other"), target, poolSize: 6, timeoutMs: 2_000 }),
  ] as const;
  const acknowledged: Appended[] = [];
  const taken: NewRecord[] = [];
  for (let round = 0; round < 20; round++) {
    const holder = dice(3) === 0 ? await holding(names[dice(names.length)] as TenantId) : undefined;
    cutSomewhere(proxy, dice);
    const calls = Array.from({ length: 1 + dice(120) }, async () => {
      const isBad = taken.length > 0 && dice(20) === 0;
      const record = isBad
        ? (taken[dice(taken.length)] as NewRecord)
        : makeRecord(names[dice(names.length)] as TenantId);
      acknowledged.push(await (replicas[dice(2)] as ServiceStores).ledger.append(record));
      taken.push(record);
    });
    const settled = Promise.allSettled(calls);
    if (holder !== undefined) await holder();
    await settled;
    proxy.disarm();
  }
  expect(acknowledged.length).toBeGreaterThan(100);
  await fixture.reading((archive) => expectOneHistory(archive, acknowledged, fixture.verifier));
});

/** Holds a head for some statements of others. Resolves with what lets it go. */
async function holding(tenantId: TenantId): Promise<() => Promise<void>> {
  const client = await fixture.holdHeads(tenantId);
  return async () => {
    for (let statement = 0; statement < 20; statement++) await client.query("SELECT 1");
    await client.query("ROLLBACK");
    await client.end();
  };
}

function cutSomewhere(proxy: TcpProxy, dice: (sides: number) => number): void {
  const way = dice(5);
  if (way === 0) proxy.cutBefore("INSERT INTO entries");
  if (way === 1) proxy.cutBefore("COMMIT\0");
  if (way === 2) proxy.cutAfter("COMMIT\0");
}

/** Numbers below `sides`, the same ones in every run. */
function diceOf(seed: string): (sides: number) => number {
  const fill = seededRandom(seed);
  return (sides) => Buffer.from(fill(new Uint8Array(4))).readUInt32BE() % sides;
}

test("a connection that is cut while a statement runs is replaced, and the statement runs again", async () => {
  const [name = tenant("alice")] = names;
  const proxy = await forTest(startTcpProxy(server.port));
  await stores.ledger.close();
  const target = { ...fixture.target, port: proxy.port };
  stores = await fixture.openStores({ clock, random: seededRandom("cut"), target });
  await append(name);
  proxy.cutBefore('SELECT tenant_id AS "tenantId", origin');
  expect(await append(name)).toMatchObject({ leafIndex: 2 });
  expect(proxy.cuts).toBe(1);
});

test("arrays reach the server unchanged", async () => {
  const client = await fixture.connect();
  const texts = ["", "a,b", 'quo"te', "back\\slash", "NULL", "ünï\u{1f600}"];
  const bytes = [new Uint8Array(), new Uint8Array([0, 1, 255]), new Uint8Array(300).fill(92)];
  const numbers = [0, -1, 2 ** 31 - 1];
  const large = [...numbers, Number.MAX_SAFE_INTEGER];
  const asked = async (type: string, values: readonly unknown[]) => {
    return (await queriesOf(client).query(`SELECT unnest($1::${type}[]) AS value`, [values])).rows.map(
      ({ value }) => value,
    );
  };
  expect(await asked("text", [null, ...texts])).toEqual([null, ...texts]);
  expect(await asked("bytea", [...bytes, null])).toEqual([...bytes.map((each) => Buffer.from(each)), null]);
  expect(await asked("integer", numbers)).toEqual(numbers);
  expect((await asked("bigint", large)).map(Number)).toEqual(large);
  for (const type of ["text", "bytea"]) expect(await asked(type, [])).toEqual([]);
});
