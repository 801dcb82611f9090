/** What the service's role may do, which connections it gets, and that readiness says what calls would. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { takeAttempt } from "../../src/domain/session.ts";
import { forFile } from "../harness/lifetimes.ts";
import { startPostgres } from "../harness/postgres.ts";
import { type PostgresFixture, postgresFixture } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";

const { clock, random, makeRecord } = recordKit();
const tenants = Array.from({ length: 40 }, (_, at) => tenant(`tenant-${at}`));
const first = tenant("tenant-0");
const refusal = { reason: "store_unavailable" };
let fixture: PostgresFixture;

const server = await forFile(startPostgres());
await server.query("CREATE ROLE svc LOGIN");
/** What the page gives the role of gateways. Here `svc` is that role, and `postgres` the owner. */
const page = readFileSync(join(import.meta.dirname, "../../docs/postgresql.md"), "utf8");
const rights = (/^CREATE ROLE gateway LOGIN;\n(.*?)^```/ms.exec(page)?.[1] ?? "")
  .replaceAll("FOR ROLE svc", "FOR ROLE postgres")
  .replaceAll("gateway", "svc");
beforeEach(async () => {
  fixture = await postgresFixture(server);
  await fixture.query(rights.replaceAll("DATABASE platform", `DATABASE ${fixture.target.database}`));
});
afterEach(async () => {
  await server.query("ALTER ROLE svc CONNECTION LIMIT -1; ALTER ROLE svc RESET ALL");
});

const open = (changes: Partial<Parameters<PostgresFixture["openStores"]>[0]> = {}) =>
  fixture.openStores({ clock, random, target: { ...fixture.target, user: "svc" }, ...changes });

/** Ends the sessions of the service, so that new ones have what was set. */
async function endSessions(): Promise<void> {
  await server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'svc'");
}

test("a role that may only read and write rows can do all that calls need", async () => {
  const { ledger, shared } = await open();
  await Promise.all(tenants.map((tenantId) => ledger.append(makeRecord(tenantId))));
  const limit = { counter: "a", maximum: 1, windowMs: 60_000, tenantId: first };
  expect((await takeAttempt(shared, [limit])).reached).toEqual([]);
  expect(await shared.firstUse({ tenantId: first, proof: "p".repeat(43) }, clock.now() + 1_000)).toBe(true);
  await ledger.check();
});

test("a schema with the role's name puts no tables before ours", async () => {
  await fixture.query("CREATE SCHEMA svc");
  await fixture.query("CREATE TABLE svc.entries (LIKE public.entries); CREATE TABLE svc.store (LIKE public.store)");
  await fixture.query("GRANT USAGE ON SCHEMA svc TO svc; GRANT ALL ON ALL TABLES IN SCHEMA svc TO svc");
  const { ledger } = await open();
  await ledger.append(makeRecord(first));
  await ledger.check();
  expect(await fixture.query("SELECT count(*) > 0 AS some FROM public.entries")).toEqual([{ some: true }]);
  expect(await fixture.query("SELECT count(*) AS rows FROM svc.entries")).toEqual([{ rows: "0" }]);
});

test.each([
  ['"$user", public', "public"],
  ['"$user"', "public"],
  ['public, "$user"', "public"],
  ['elsewhere, "$user", public', "elsewhere, public"],
  ['"a schema", "$user"', '"a schema"'],
  ['"not$user", public', '"not$user", public'],
])("of the search path %s, %s is used", async (given, expected) => {
  await server.query(`ALTER ROLE svc SET search_path = ${given}`);
  const { prepareConnection } = await import("../../src/stores/postgres/connection/client-options.ts");
  const client = await fixture.connect("svc");
  await prepareConnection(client);
  expect((await client.query("SHOW search_path")).rows).toEqual([{ search_path: expected }]);
});

describe("readiness and calls agree", () => {
  test("if the database is read-only by default: both fail, and both recover afterwards", async () => {
    const { ledger } = await open();
    await ledger.append(makeRecord(first));
    await server.query("ALTER ROLE svc SET default_transaction_read_only = on");
    await endSessions();
    await expect(ledger.append(makeRecord(first))).rejects.toMatchObject(refusal);
    await expect(ledger.check()).rejects.toMatchObject(refusal);
    await server.query("ALTER ROLE svc RESET default_transaction_read_only");
    await endSessions();
    await ledger.append(makeRecord(first));
    await ledger.check();
  });

  test.each(["SELECT FROM store FOR UPDATE", "LOCK TABLE store", "LOCK TABLE signing_keys"])(
    "if another session holds what no call needs (%s): both continue",
    async (lock) => {
      const { ledger } = await open({ timeoutMs: 2_000 });
      await ledger.append(makeRecord(first));
      const holder = await fixture.connect();
      await holder.query("BEGIN");
      await holder.query(lock);
      await ledger.append(makeRecord(first));
      await ledger.check();
      // And still it is not said that the database takes writes if it takes none.
      await server.query("ALTER ROLE svc SET default_transaction_read_only = on");
      await endSessions();
      await expect(ledger.check()).rejects.toMatchObject(refusal);
    },
  );
});

describe("a server with fewer connections than the pool", () => {
  test("is waited for: every call is answered", async () => {
    await server.query("ALTER ROLE svc CONNECTION LIMIT 3");
    const lines: object[] = [];
    const logger = { info() {}, warn: (fields: object) => void lines.push(fields) };
    const { ledger, shared } = await open({ poolSize: 10, logger });
    for (let round = 0; round < 5; round++) {
      const calls = tenants.flatMap((tenantId) => [
        ledger.append(makeRecord(tenantId)),
        takeAttempt(shared, [{ counter: "a", maximum: 1_000, windowMs: 60_000, tenantId }]),
      ]);
      const outcomes = await Promise.allSettled(calls);
      expect(outcomes.filter(({ status }) => status === "rejected")).toEqual([]);
    }
    // On a busy machine a tenant may be reported as stuck, too.
    expect(lines.filter((line) => "connections" in line)).toEqual([{ connections: expect.any(Number) }]);
    await ledger.check();
  }, 60_000);

  test("is waited for within the time limit if others hold all connections", async () => {
    const { ledger } = await open({ timeoutMs: 3_000 });
    await ledger.append(makeRecord(first));
    await server.query("ALTER ROLE svc CONNECTION LIMIT 0");
    await endSessions();
    const [waiting] = await Promise.all([
      ledger.append(makeRecord(first)),
      server.query("ALTER ROLE svc CONNECTION LIMIT -1"),
    ]);
    expect(waiting.receipt.leafIndex).toBe(2);
    await server.query("ALTER ROLE svc CONNECTION LIMIT 0");
    await endSessions();
    await expect(ledger.append(makeRecord(first))).rejects.toMatchObject(refusal);
  });
});
