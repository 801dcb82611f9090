/** Several token issuers, each with tenants of its own, as callers, operators and attackers see them. */
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { folderForFile, replaceFile } from "../harness/folder.ts";
import { type Gateway, rest, startGateway } from "../harness/gateway.ts";
import { type StaticIssuer, startStaticIssuer } from "../harness/issuer.ts";
import { forTest } from "../harness/lifetimes.ts";
import { claimsOf, type Members, mintToken, newTestKey, type TestKey } from "../harness/tokens.ts";

// One key id for all, so that only the issuer tells them apart.
const keys = [1, 2, 3].map(() => newTestKey("ES256", "key-1")) as [TestKey, TestKey, TestKey];
const tenants = ["acme", "umbrella", "initech"] as const;
const scope = "platform-api.access policy.read evidence.write";

const file = join(folderForFile("issuers"), "issuers.yaml");
let issuers: [StaticIssuer, StaticIssuer, StaticIssuer];
let gateway: Gateway;

/** The file of the first so many issuers, or the text itself. */
function write(content: number | string, changes: Members = {}): void {
  const entries = issuers.map(({ url }, i) => [url, { tenants: { list: [tenants[i]] }, ...changes }]);
  const table = typeof content === "string" ? content : { issuers: Object.fromEntries(entries.slice(0, content)) };
  replaceFile(file, typeof table === "string" ? table : JSON.stringify(table));
}

const tokenOf = (index: 0 | 1 | 2, claims: Members = {}, key: TestKey = keys[index]) =>
  mintToken(key, claimsOf(issuers[index].url, Date.now(), { tenant_id: tenants[index], scope, ...claims }));
const whoami = (token: string) => rest(`${gateway.url}/v1/sdk/whoami`, { token, headers: { connection: "close" } });
const statusOf = async (token: string) => (await whoami(token)).status;
const readiness = async () => (await rest(`${gateway.opsUrl}/readyz`, {})).body;
const check = async () => (await readiness()).checks.find(({ name }: { name: string }) => name === "issuer_keys");

const settings = { SVC_OIDC_ISSUER: undefined, SVC_OIDC_ISSUERS: file };
async function start(env: Record<string, string> = {}): Promise<void> {
  gateway = await forTest(startGateway({ env: { ...settings, ...env } }));
  await expect.poll(check).toEqual({ name: "issuer_keys", status: "ok" });
}

beforeEach(async () => {
  const starting = keys.map(({ publicJwk }) => forTest(startStaticIssuer([publicJwk])));
  issuers = (await Promise.all(starting)) as typeof issuers;
  write(3);
});

test("an issuer that is down at the start is named, and the service is ready for the other tenants", async () => {
  await issuers[1].stop();
  gateway = await forTest(startGateway({ env: settings }));
  await expect.poll(check).toEqual({
    name: "issuer_keys",
    status: "ok",
    reason: expect.stringContaining("1 of 3 issuers have problems"),
  });
  expect((await check()).reason).toContain(issuers[1].url);
  expect((await readiness()).status).toBe("ready");
  expect([await statusOf(tokenOf(0)), await statusOf(tokenOf(1)), await statusOf(tokenOf(2))]).toEqual([200, 503, 200]);
});

test("a caller sees its own issuer only", async () => {
  write(3, { audience: "api://svc-platform-api" });
  await start();
  for (const index of [0, 1, 2] as const) {
    for (const route of ["/v1/sdk/capabilities", "/v1/sdk/bootstrap"]) {
      const { body } = await rest(`${gateway.url}${route}`, { token: tokenOf(index) });
      expect(body.auth_configuration).toMatchObject({
        ...{ mode: "oauth_client_credentials", oidc_issuer: issuers[index].url, oidc_issuer_ready: true },
        oidc_audience: "api://svc-platform-api",
      });
    }
  }
});

test("a token for another issuer's tenant is refused, and the log and the metrics name the issuer", async () => {
  await start();
  for (let call = 0; call < 2; call++) {
    const { status, body } = await whoami(tokenOf(0, { tenant_id: "umbrella", jti: "one" }));
    expect([status, body.error.reason]).toEqual([401, "invalid_token"]);
  }
  const lines = gateway.logged.map((line) => JSON.parse(line)).filter(({ event }) => event === "issuer_overreached");
  expect(lines.length).toBeGreaterThan(0);
  expect(lines[0]).toMatchObject({ category: "security", issuer: issuers[0].url, tenant_id: "umbrella" });
  const metrics = await (await fetch(`${gateway.opsUrl}/metrics`)).text();
  expect(metrics).toMatch(new RegExp(`svc_issuer_overreaches_total\\{issuer="${issuers[0].url}"\\} [12]\n`));
  for (const { url } of issuers) expect(metrics).toContain(`svc_issuer_key_fetches_total{issuer="${url}",result="ok"}`);
});

describe("the issuers file", () => {
  test("is reloaded: a removed issuer is refused at once, a new one accepted, and a bad file ignored", async () => {
    write(2);
    await start();
    const tokens = [tokenOf(0), tokenOf(1), tokenOf(2)];
    /** What each token is answered with, in a dozen calls. */
    const statuses = () =>
      Promise.all(
        tokens.map(async (token) => [...new Set(await Promise.all(Array.from({ length: 12 }, () => statusOf(token))))]),
      );
    expect(await statuses()).toEqual([[200], [200], [401]]);

    const wrong = {
      [issuers[0].url]: { tenants: { fixed: "acme" } },
      [issuers[1].url]: { tenants: { pattern: "a*" } },
    };
    write(JSON.stringify({ issuers: wrong }));
    await gateway.app.reload();
    expect(await statuses()).toEqual([[200], [200], [401]]);
    const refused = () => gateway.logged.find((line) => line.includes("credentials_not_taken")) ?? "";
    expect(refused()).toContain("both may speak for acme; a tenant has one issuer");
    for (const { url } of issuers.slice(0, 2)) expect(refused()).toContain(url);

    write(JSON.stringify({ issuers: { [issuers[2].url]: { tenants: { fixed: "initech" } } } }));
    await gateway.app.reload();
    expect(await statuses()).toEqual([[401], [401], [200]]);
    const inForce = gateway.logged.find((line) => line.includes("credentials_changed")) ?? "";
    expect(JSON.parse(inForce)).toMatchObject({ what: "oidc_issuers", settings: ["SVC_OIDC_ISSUERS"], issuers: "1" });
    const metrics = await (await fetch(`${gateway.opsUrl}/metrics`)).text();
    expect(metrics).toContain(`svc_issuer_keys_fetched_timestamp_seconds{issuer="${issuers[2].url}"}`);
    expect(metrics).not.toContain(`svc_issuer_keys_fetched_timestamp_seconds{issuer="${issuers[0].url}"}`);
  });
});
