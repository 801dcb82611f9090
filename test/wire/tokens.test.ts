/** Where tokens are read from, and how readiness follows the issuer and the store. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, describe, expect, test } from "vitest";
import { type Gateway, rest, startGateway } from "../harness/gateway.ts";
import { type StaticIssuer, startStaticIssuer } from "../harness/issuer.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";

const key = newTestKey("ES256", "key-1");

describe("tokens of the issuer", () => {
  const stops: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
  });
  /** Stops it after the test, whatever happens. */
  async function using<T extends { stop(): Promise<void> }>(starting: Promise<T>): Promise<T> {
    const started = await starting;
    stops.push(() => started.stop());
    return started;
  }
  const tokenOf = ({ url }: StaticIssuer) => mintToken(key, claimsOf(url, Date.now()));

  /** Whether the service says that it is ready, and which checks do not hold. */
  async function readiness({ opsUrl }: Gateway): Promise<{ ready: boolean; failed: string[] }> {
    const { status, body } = await rest(`${opsUrl}/readyz`, {});
    const failed = body.checks.filter((check: { status: string }) => check.status !== "ok");
    return { ready: status === 200, failed: failed.map(({ name }: { name: string }) => name) };
  }
  /** Readiness follows within two seconds. */
  const expectReadiness = (gateway: Gateway, ready: boolean, failed: string[] = []) =>
    expect.poll(() => readiness(gateway), { timeout: 2_000, interval: 20 }).toEqual({ ready, failed });

  test("are read from the Authorization header only, never from the query or the body", async () => {
    const { url, token, stop } = await startGateway();
    stops.push(stop);
    const access_token = await token();
    const query = await rest(`${url}/v1/sdk/whoami?access_token=${access_token}`, {});
    expect(query.body.error.reason).toBe("missing_token");
    const body = await rest(`${url}/v1/sdk/evidence`, { body: { access_token } });
    expect(body.body.error.reason).toBe("missing_token");
  });

  test("an issuer that is down at the start makes the service refuse with 503, until the issuer is back", async () => {
    const absent = await startStaticIssuer();
    await absent.stop();
    const gateway = await using(startGateway({ env: { SVC_OIDC_ISSUER: absent.url } }));
    await expectReadiness(gateway, false, ["issuer_keys"]);
    expect((await rest(`${gateway.opsUrl}/livez`, {})).status).toBe(200);
    const refused = await rest(`${gateway.url}/v1/sdk/capabilities`, { token: tokenOf(absent) });
    expect(refused).toMatchObject({ status: 503, body: { error: { reason: "issuer_unavailable" } } });
    expect(refused.headers.get("retry-after")).toBe("1");

    const back = await using(startStaticIssuer([key.publicJwk], absent.port));
    await expectReadiness(gateway, true);
    const { body } = await rest(`${gateway.url}/v1/sdk/capabilities`, { token: tokenOf(back) });
    expect(body.auth_configuration.oidc_issuer_ready).toBe(true);
  });

  test("readiness reports issuer and store, down and up", async () => {
    const gateway = await using(startGateway());
    await expectReadiness(gateway, true);
    const database = new DatabaseSync(join(gateway.dataDir, "platform.db"), { timeout: 10_000 });
    database.exec("BEGIN IMMEDIATE");
    const lockedAt = performance.now();
    await expect.poll(() => readiness(gateway), { timeout: 4_000 }).toEqual({ ready: false, failed: ["store"] });
    expect(performance.now() - lockedAt).toBeLessThan(2_500);
    database.close();
    await expectReadiness(gateway, true);
  });
});
