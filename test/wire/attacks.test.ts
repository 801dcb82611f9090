/**
 * Attacks on who is calling, over REST and gRPC. Tokens that are bad in themselves are in `unit/auth/token.test.ts`, identity
 * headers in `identity-headers.test.ts`, proofs in `dpop.test.ts`, certificates in `system/`.
 */
import { describe, expect, test } from "vitest";
import { reasonOnBoth } from "../harness/both-wires.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { h2Connect } from "../harness/h2.ts";
import { startStaticIssuer } from "../harness/issuer.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forFile } from "../harness/lifetimes.ts";
import { askOf, sessionCallers, startSessionDeployment, testClient } from "../harness/sessions.ts";
import { claimsOf, type Members, mintToken, newTestKey } from "../harness/tokens.ts";

const issuer = await issuerForFile();
const forger = newTestKey("ES256", "key-1");
/** Publishes the forger's key, for a gateway that would fetch what a token tells it to. */
const lure = await forFile(startStaticIssuer([forger.publicJwk]));
const gateway = await gatewayForFile({ env: { SVC_OIDC_ISSUER: issuer.url } });
const session = await h2Connect(gateway.url);

describe("a forged token", () => {
  const forged = (header: Members, claims: Members = {}) =>
    mintToken(forger, claimsOf(issuer.url, Date.now(), claims), header);
  const bearer = (token: string) => reasonOnBoth(gateway.url, session, [["authorization", `Bearer ${token}`]]);

  test("the genuine token is accepted", async () => {
    expect(await bearer(issuer.token())).toBeUndefined();
  });

  test.each<[string, () => string]>([
    ["the forger's key set in jku", () => forged({ jku: `${lure.url}/keys` })],
    ["the same with its own key id", () => forged({ jku: `${lure.url}/keys`, kid: "lure" })],
    ["the forger's certificates in x5u", () => forged({ x5u: `${lure.url}/keys` })],
    ["kid a URL", () => forged({ kid: `${lure.url}/keys` })],
    ["the lure as its issuer", () => forged({}, { iss: lure.url })],
  ])("with %s is refused, and no keys are fetched", async (_name, token) => {
    const before = lure.fetches.discovery + lure.fetches.keys;
    // Two in 30 seconds have the issuer asked for their key; for others it is not known whether it is new.
    expect(["invalid_token", "issuer_unavailable"]).toContain(await bearer(token()));
    expect(lure.fetches.discovery + lure.fetches.keys).toBe(before);
  });
});

const client = testClient();
const right = askOf(client);
const deployment = await forFile(startSessionDeployment([client]));
const replica = await gatewayForFile({ dataDir: deployment.gateway.dataDir, env: deployment.env });

describe("guessing the secret of a session client", () => {
  test.each(sessionCallers)(
    "%s: twenty wrong attempts a minute from one address reach the limit",
    async (name, call) => {
      const urls = [deployment.gateway.url, replica.url];
      const attacker = { "x-forwarded-for": name === "REST" ? "198.51.100.7" : "198.51.100.8" };
      const outcomes = [];
      for (let i = 0; i < 20; i++) {
        // By turns at both replicas, for a client that is there, for others, and for a tenant that is not.
        const others = [{ clientId: `guess-${i}` }, { tenantId: `guess-${i}` }];
        const guess = { ...right, clientSecret: `guess-${i}`, ...others[i % 4] };
        outcomes.push(await call(urls[i % 2] as string, guess, attacker));
      }
      const message = "the client credentials are not valid";
      for (const outcome of outcomes)
        expect(outcome).toEqual({ reason: "invalid_client", message, retryAfter: undefined });
      for (const url of urls) {
        const refused = await call(url, right, attacker);
        expect(refused).toMatchObject({ reason: "rate_limited", retryAfter: expect.stringMatching(/^[1-9]\d?$/) });
        expect(Number((refused as { retryAfter: string }).retryAfter)).toBeLessThanOrEqual(60);
      }
      // Who is elsewhere is not locked out, at whichever replica.
      for (const url of urls) {
        expect(await call(url, right, { "x-forwarded-for": "203.0.113.9" })).toHaveProperty("token");
        expect(
          await call(url, right, { "x-forwarded-for": `203.0.113.9, ${attacker["x-forwarded-for"]}` }),
        ).toHaveProperty("reason", "rate_limited");
      }
    },
  );
});
