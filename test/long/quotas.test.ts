/** Replicas keep to quotas together, whichever is killed with a portion in hand. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { rest } from "../harness/gateway.ts";
import { type StaticIssuer, startStaticIssuer } from "../harness/issuer.ts";
import { type RunningService, serviceSettings, startService } from "../harness/process.ts";
import { testStores } from "../harness/stores.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";

const planRoute = "/v1/sdk/protection-plan";

describe.each(testStores)("two gateways on %s", (_name, startStore) => {
  const running: RunningService[] = [];
  let issuer: StaticIssuer | undefined;
  afterEach(async () => {
    for (const { child } of running) child.kill("SIGKILL");
    await Promise.all(running.splice(0).map(({ ended }) => ended));
    await issuer?.stop();
  });

  test("accept as many calls as the limit says together, less what a killed one had reserved", {
    timeout: 120_000,
  }, async () => {
    const limit = 200;
    const store = await startStore();
    const key = newTestKey("ES256", "key-1");
    issuer = await startStaticIssuer([key.publicJwk]);
    const file = join(store.folder, "quotas.json");
    writeFileSync(file, JSON.stringify({ default: { records: { limit, period_seconds: 3_600 } } }));
    const settings = { ...serviceSettings(store.folder, issuer.url), ...store.settings, SVC_QUOTAS: file };
    // One after the other: the first makes the key.
    for (let i = 0; i < 2; i++) running.push(await startService(store.folder, settings));
    const [killed, survivor] = running as [RunningService, RunningService];
    const claims = { tenant_id: "tenant-a", scope: "platform-api.access policy.read" };
    const token = mintToken(key, claimsOf(issuer.url, Date.now(), claims));
    const body = sampleCalls().find(({ route }) => route === planRoute)?.body;
    const statuses: number[] = [];
    const call = async ({ url }: RunningService, calls: number) => {
      const answers = await Promise.all(Array.from({ length: calls }, () => rest(url + planRoute, { token, body })));
      statuses.push(...answers.map(({ status }) => status));
    };
    const letIn = () => statuses.filter((status) => status === 200).length;
    for (let round = 0; round < 5; round++) await Promise.all([call(killed, 7), call(survivor, 7)]);
    expect(letIn()).toBe(70);
    // With what is left of a portion in its hand, which no call gets.
    killed.child.kill("SIGKILL");
    await killed.ended;
    for (let round = 0; round < 20; round++) await call(survivor, 10);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    const lost = limit - letIn();
    expect(lost).toBeGreaterThanOrEqual(0);
    expect(lost).toBeLessThanOrEqual(limit / 50);
    await store.stop();
  });
});
