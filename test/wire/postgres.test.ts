import { expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { sampleCalls } from "../../dev/requests.ts";
import type { GivenReceipt } from "../../src/ledger/record/receipt.ts";
import { migratePostgres } from "../../src/stores/postgres/schema/schema.ts";
import { targetOf } from "../contract/ledger-postgres-fixture.ts";
import { seededRandom } from "../contract/ledger-records.ts";
import { gatewayForFile, rest, startGateway } from "../harness/gateway.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { startPostgres } from "../harness/postgres.ts";

const server = await forFile(startPostgres());
const url = await server.createDatabase("platform");
await expect(startGateway({ env: { SVC_STORE: url } })).rejects.toThrow("run `migrate`");
await migratePostgres({ target: targetOf(url), random: seededRandom() });
const gateway = await gatewayForFile({ env: { SVC_STORE: url, SVC_STORE_TIMEOUT_MS: "1000" } });
const token = await gateway.token();

test("many concurrent bulk calls of one tenant are answered or refused, and another tenant is served meanwhile", {
  timeout: 120_000,
}, async () => {
  const url = await server.createDatabase("bulk");
  await migratePostgres({ target: targetOf(url), random: seededRandom() });
  const clients = [defaultClient(), { ...defaultClient(), clientId: "quiet", tenantId: "quiet" }];
  const env = { SVC_STORE: url, SVC_STORE_TIMEOUT_MS: "30000", SVC_BULK: "on" };
  const gateway = await forTest(startGateway({ env, issuer: { clients } }));
  const event = sampleCalls().find(({ route }) => route.endsWith("evidence"))?.body;
  const items = Array.from({ length: 1_000 }, (_, at) => ({ idempotency_key: `bulk-${at}`, event }));
  const [token, quiet] = [await gateway.token(), await gateway.token({ clientId: "quiet" })];
  const call = async (number: number) => {
    const own = items.map((item) => ({ ...item, idempotency_key: `${number}-${item.idempotency_key}` }));
    return (await rest(`${gateway.url}/v1/bulk/evidence`, { token, body: { items: own } })).status;
  };
  const bulk = Promise.all(Array.from({ length: 12 }, (_, number) => call(number)));
  let areEnded = false;
  void bulk.finally(() => {
    areEnded = true;
  });
  const others = new Set<number>();
  const other = async () => (await rest(`${gateway.url}/v1/sdk/evidence`, { token: quiet, body: event })).status;
  while (!areEnded) others.add(await other());
  const statuses = new Set(await bulk);
  expect(statuses).toContain(200);
  expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect(others).toContain(200);
  expect(await other()).toBe(200);
});

test("an unreachable database gives 503 with Retry-After, and is used again once it is back", async () => {
  const call = sampleCalls().find(({ route }) => route.endsWith("evidence"));
  const ask = () => rest(`${gateway.url}/v1/sdk/evidence`, { token, body: call?.body });
  const before = (await ask()).body.ingestion.receipt as GivenReceipt;
  await server.kill();
  const refused = await ask();
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(refused.body.error.reason).toBe("store_unavailable");
  await server.restart();
  await expect.poll(async () => (await ask()).status).toBe(200);
  const after = (await ask()).body.ingestion.receipt as GivenReceipt;
  expect(after.log_origin).toBe(before.log_origin);
  expect(after.leaf_index).toBeGreaterThan(before.leaf_index);
});
