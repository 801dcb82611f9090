/** The session route: where it is there, and what its tokens are worth, over REST and gRPC. */
import { writeFile } from "node:fs/promises";
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from "jose";
import { describe, expect, test } from "vitest";
import { reasonOnBoth } from "../harness/both-wires.ts";
import { rest } from "../harness/gateway.ts";
import { h2Connect } from "../harness/h2.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import {
  askOf,
  newSessionKey,
  type SessionOutcome,
  sessionByGrpc,
  sessionByRest,
  sessionCallers,
  sessionRestPath,
  startSessionDeployment,
  type TestClient,
  testClient,
  tokenOf,
  writeClients,
} from "../harness/sessions.ts";

const client = testClient({ scopes: ["platform-api.access", "policy.read", "evidence.write"] });
const other: TestClient = { ...client, tenantId: "tenant-b", clientId: "hr-service", secret: "t".repeat(43) };
const ask = askOf(client);

const { gateway, clientsPath } = await forFile(startSessionDeployment([client, other]));

describe("with session clients", () => {
  const whoami = (token: string) => rest(`${gateway.url}/v1/sdk/whoami`, { token });

  describe.each(sessionCallers)("%s", (_name, call) => {
    test("a client's credentials give a token that the service accepts", async () => {
      const { token, ...answer } = (await call(gateway.url, ask)) as Extract<SessionOutcome, { token: string }>;
      expect(answer).toEqual({
        tokenType: "Bearer",
        expiresIn: 300,
        scope: "platform-api.access policy.read evidence.write",
        tenantId: "tenant-a",
        clientId: "payroll-service",
        subject: "payroll-service",
      });
      expect((await whoami(token)).body.caller).toEqual({
        tenant_id: "tenant-a",
        principal_id: "payroll-service",
        subject: "payroll-service",
        auth_source: "session_token",
        scopes: client.scopes,
      });
    });

    test("scopes are limited to the granted ones, and enforced on the routes", async () => {
      const requestedScopes = ["evidence.write", "keys.use", "evidence.write", "platform-api.access"];
      const outcome = await call(gateway.url, { ...ask, requestedScopes });
      expect(outcome).toMatchObject({ scope: "evidence.write platform-api.access" });
      const plan = await rest(`${gateway.url}/v1/sdk/policy-resolve`, { token: tokenOf(outcome), body: {} });
      expect(plan.body.error).toMatchObject({ reason: "missing_scope", missing_scopes: ["policy.read"] });
      expect(await call(gateway.url, { ...ask, requestedScopes: ["keys.use"] })).toMatchObject({ scope: "" });
    });
  });

  test("a malformed request is refused with the fault's path, and none of its values", async () => {
    const answer = await rest(gateway.url + sessionRestPath, {
      body: { tenant_id: "../a", client_id: "", client_secret: "very-secret", grant_type: "x" },
    });
    expect(answer.status).toBe(400);
    const again = await rest(gateway.url + sessionRestPath, {
      body: { tenant_id: "../a", client_id: "", client_secret: "very-secret".repeat(100) },
    });
    expect(again.body.error.violations.map(({ field }: { field: string }) => field)).toEqual([
      "tenant_id",
      "client_id",
      "client_secret",
    ]);
    expect(JSON.stringify([answer.body, again.body])).not.toContain("very-secret");
    const get = await rest(gateway.url + sessionRestPath, { method: "GET" });
    expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
  });

  test("any client can verify a token with the published keys", async () => {
    const token = tokenOf(await sessionByRest(gateway.url, ask));
    const keys = createRemoteJWKSet(new URL(`${gateway.url}/.well-known/jwks.json`));
    const { payload, protectedHeader } = await jwtVerify(token, keys, {
      issuer: "svc-platform-api",
      audience: "api://svc-platform-api",
      typ: "at+jwt",
    });
    expect(payload).toMatchObject({ client_id: "payroll-service", tenant_id: "tenant-a" });
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(300);
    expect(protectedHeader.alg).toBe("EdDSA");
    const published = await rest(`${gateway.url}/.well-known/jwks.json`, {});
    expect(published.body.keys.map((key: object) => Object.keys(key).sort())).toEqual([
      ["alg", "crv", "kid", "kty", "use", "x"],
    ]);
  });

  test("no secret of the route is logged", () => {
    const logged = gateway.logged.join("");
    expect(logged).toContain("SessionService/CreateSession");
    for (const secret of [client.secret, other.secret, "very-secret", "argon2"]) expect(logged).not.toContain(secret);
    expect(logged).not.toMatch(/eyJ[A-Za-z0-9_-]{20}/);
  });

  test("behind a proxy that appends ports, a guesser locks out no other client", async () => {
    const from = (address: string) => ({ "x-forwarded-for": address });
    const wrong = { ...ask, clientSecret: "w".repeat(43) };
    const outcome = async (secret: typeof ask, address: string) => {
      const answer = await sessionByRest(gateway.url, secret, from(address));
      return "token" in answer ? "let in" : answer.reason;
    };
    await expect.poll(() => outcome(wrong, "192.0.2.50:1234"), { interval: 0 }).toBe("rate_limited");
    expect(await outcome(ask, "[2001:db8:50::1]:1234")).toBe("let in");
    expect(await outcome(ask, "192.0.2.51:1234")).toBe("let in");
    for (let call = 0; call < 3; call++) await outcome(ask, `198.51.100.200, unknown-${call}`);
    const lines = gateway.logged
      .join("")
      .split("\n")
      .filter((line) => line.includes("entry of X-Forwarded-For is not an address"));
    expect(lines.map((line) => JSON.parse(line).entry)).toEqual(["unknown-0"]);
  });

  test("a client that is added, rotated or removed takes effect within seconds, without a restart", async () => {
    const added = { ...client, clientId: "added", secret: "u".repeat(43) };
    const askAdded = { ...ask, ...askOf(added) };
    const from = (address: string) => ({ "x-forwarded-for": address });
    let asked = 0;
    const outcome = async () => {
      asked += 1;
      const answer = await sessionByRest(gateway.url, askAdded, from(`198.51.100.${asked}`));
      return "token" in answer ? "let in" : answer.reason;
    };
    const follow = (what: string) => expect.poll(outcome, { interval: 250 }).toBe(what);
    expect(await outcome()).toBe("invalid_client");
    writeClients(clientsPath, [client, other, added]);
    await follow("let in");
    writeClients(clientsPath, [client, other, { ...added, secret: "v".repeat(43) }]);
    await follow("invalid_client");
    // A file that is none changes nothing, and says so.
    await writeFile(clientsPath, "{");
    await expect
      .poll(() => gateway.logged.join(""))
      .toContain("changed files are refused; the previous content stays in force");
    expect(tokenOf(await sessionByRest(gateway.url, ask))).not.toBe("");
  });
});

test("rotated keys are both accepted while both are configured; a token of a withdrawn key is refused", async () => {
  const { gateway, keyPath } = await forTest(startSessionDeployment([client]));
  const session = await h2Connect(gateway.url);
  const reasonFor = (token: string) => reasonOnBoth(gateway.url, session, [["authorization", `Bearer ${token}`]]);
  const newToken = async () => tokenOf(await sessionByRest(gateway.url, ask));
  const kidOf = (token: string) => decodeProtectedHeader(token).kid;

  const before = await newToken();
  expect(await reasonFor(before)).toBeUndefined();
  const [first, second] = [newSessionKey("ec"), newSessionKey()];
  await writeFile(keyPath, first.own + second.shown);
  const newAlgorithm = async () => decodeProtectedHeader(await newToken()).alg;
  await expect.poll(newAlgorithm, { interval: 500 }).toBe("ES256");
  const after = await newToken();
  expect(kidOf(after)).not.toBe(kidOf(before));
  expect(await reasonFor(after)).toBeUndefined();
  // The one before is not in the file any more: remembered as it is, its token has ended.
  expect(await reasonFor(before)).toBe("invalid_token");
  await writeFile(keyPath, second.own + first.shown);
  await expect.poll(newAlgorithm, { interval: 500 }).toBe("EdDSA");
  expect(await reasonFor(after)).toBeUndefined();
  expect((await rest(`${gateway.url}/.well-known/jwks.json`, {})).body.keys).toHaveLength(2);
});

test("without a token issuer, only session tokens are accepted, and discovery says so", async () => {
  const { gateway } = await forTest(startSessionDeployment([client], { SVC_OIDC_ISSUER: undefined }));
  expect((await rest(`${gateway.opsUrl}/readyz`, {})).status).toBe(200);
  const token = tokenOf(await sessionByGrpc(gateway.url, ask));
  const { body } = await rest(`${gateway.url}/v1/sdk/capabilities`, { token });
  expect(body.auth_configuration).toEqual({
    mode: "bearer_token_validation",
    proof_of_possession: "none",
    oidc_issuer_ready: false,
    mtls_ready: false,
  });
  const foreign = await rest(`${gateway.url}/v1/sdk/whoami`, { token: await gateway.token() });
  expect(foreign).toMatchObject({ status: 401, body: { error: { reason: "invalid_token" } } });
});

test.each(sessionCallers)(
  "%s: session tokens are bound to certificates too, and none is issued without a certificate",
  async (_name, call) => {
    const deployment = startSessionDeployment([client], { SVC_PROOF_OF_POSSESSION: "mtls" });
    const { url } = (await forTest(deployment)).gateway;
    const shown = (byte: number) => ({ "x-svc-mtls-client-certificate": Buffer.alloc(32, byte).toString("base64url") });
    const own = shown(1);
    const token = tokenOf(await call(url, ask, own));
    const reasonFor = async (headers: Record<string, string>) =>
      (await rest(`${url}/v1/sdk/whoami`, { token, headers })).body.error?.reason ?? "let in";
    expect(await reasonFor(own)).toBe("let in");
    expect(await reasonFor(shown(2))).toBe("proof_of_possession_failed");
    expect(await reasonFor({})).toBe("proof_of_possession_failed");
    expect(await call(url, ask)).toMatchObject({ reason: "proof_of_possession_failed" });
  },
);
