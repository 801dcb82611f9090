import { expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { forFile } from "../harness/lifetimes.ts";
import { testStores } from "../harness/stores.ts";

const [, [, startPostgresStore]] = testStores;
const store = await forFile(startPostgresStore());
const clients = [defaultClient(), { ...defaultClient(), clientId: "quiet", tenantId: "quiet" }];
const env = { ...store.settings, SVC_STORE_TIMEOUT_MS: "30000", SVC_BULK: "on" };
const gateway = await gatewayForFile({ dataDir: store.folder, env, issuer: { clients } });

test("many concurrent bulk calls of one tenant are answered or refused, and another tenant is served meanwhile", {
  timeout: 120_000,
}, async () => {
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
