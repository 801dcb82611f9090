/**
 * Attacks on who is calling, over REST and gRPC. Tokens that are bad in themselves are in `tokens.test.ts`, identity
 * headers in `identity-headers.test.ts`, proofs in `dpop.test.ts`, certificates in `system/`.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { IssuerClient } from "../../dev/issuer.ts";
import { type Outcome, type WireClient, wireClients } from "../harness/clients.ts";
import { type Gateway, rest, startGateway } from "../harness/gateway.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { h1Connect, h1Exchange, h1Request } from "../harness/h1.ts";
import { h2Call, h2Close, h2Connect } from "../harness/h2.ts";
import { h2Field, h2Frame, h2Preface } from "../harness/h2-frames.ts";
import { type StaticIssuer, startStaticIssuer } from "../harness/issuer.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { type SessionDeployment, sessionCallers, startSessionDeployment } from "../harness/sessions.ts";
import { claimsOf, type Members, mintHmacToken, mintToken, newTestKey } from "../harness/tokens.ts";

const whoAmIPath = "/platform.sdk.v1.DiscoveryService/WhoAmI";

/** Reason of the refusal of a call with these headers, the same on both protocols; undefined where it is let in. */
async function reasonFor(url: string, headers: Record<string, string | string[]>): Promise<string | undefined> {
  const lines = Object.entries(headers).flatMap(([name, values]) =>
    [values].flat().map((value) => `${name}: ${value}`),
  );
  const answer = await h1Exchange(url, h1Request("GET /v1/sdk/whoami", lines));
  const session = await h2Connect(url);
  const { trailers } = await h2Call(session, {
    path: whoAmIPath,
    headers: { "content-type": "application/grpc", ...headers },
    body: frame(Buffer.alloc(0)),
  });
  await h2Close(session);
  const { error } = JSON.parse(answer?.text ?? "");
  expect(refusalInTrailers(trailers)?.reason).toBe(error?.reason);
  return error?.reason;
}

describe("a forged token", () => {
  const key = newTestKey("ES256", "key-1");
  const forger = newTestKey("ES256", "key-1");
  let issuer: StaticIssuer;
  /** Publishes the forger's key, for a gateway that would fetch what a token tells it to. */
  let lure: StaticIssuer;
  let gateway: Gateway;
  beforeAll(async () => {
    issuer = await startStaticIssuer([key.publicJwk]);
    lure = await startStaticIssuer([forger.publicJwk]);
    gateway = await startGateway({ env: { SVC_OIDC_ISSUER: issuer.url } });
  });
  afterAll(async () => {
    await gateway.stop();
    await lure.stop();
    await issuer.stop();
  });
  const forged = (header: Members, claims: Members = {}) =>
    mintToken(forger, claimsOf(issuer.url, Date.now(), claims), header);
  const bearer = (token: string) => reasonFor(gateway.url, { authorization: `Bearer ${token}` });

  test("the genuine one is let in", async () => {
    expect(await bearer(mintToken(key, claimsOf(issuer.url, Date.now())))).toBeUndefined();
  });

  test.each<[string, () => string]>([
    ["the forger's key in jwk", () => forged({ jwk: forger.publicJwk })],
    ["the forger's key set in jku", () => forged({ jku: `${lure.url}/keys` })],
    ["the same with its own key id", () => forged({ jku: `${lure.url}/keys`, kid: "lure" })],
    ["the forger's certificates in x5u", () => forged({ x5u: `${lure.url}/keys` })],
    ["a certificate in x5c", () => forged({ x5c: [Buffer.from("certificate").toString("base64")] })],
    ["kid a URL", () => forged({ kid: `${lure.url}/keys` })],
    ["the lure as its issuer", () => forged({}, { iss: lure.url })],
    [
      "HMAC with the public key as JWK",
      () => mintHmacToken(JSON.stringify(key.publicJwk), claimsOf(issuer.url, Date.now()), { kid: "key-1" }),
    ],
  ])("with %s is refused, and no keys are fetched", async (_name, token) => {
    const before = lure.fetches.discovery + lure.fetches.keys;
    // Two in 30 seconds have the issuer asked for their key; for others it is not known whether it is new.
    expect(["invalid_token", "issuer_unavailable"]).toContain(await bearer(token()));
    expect(lure.fetches.discovery + lure.fetches.keys).toBe(before);
  });

  test("beside a genuine one, in two Authorization headers, is refused in either order", async () => {
    const good = mintToken(key, claimsOf(issuer.url, Date.now()));
    for (const [i, tokens] of [
      [good, forged({})],
      [forged({}), good],
      [good, good],
    ].entries()) {
      const lines = tokens.map((token) => `authorization: Bearer ${token}`);
      const answer = await h1Exchange(gateway.url, h1Request("GET /v1/sdk/whoami", lines));
      expect(JSON.parse(answer?.text ?? "").error.reason).toBe("invalid_token");
      // No client sends the header twice over HTTP/2, so the frames are written by hand, and the log says what came.
      const id = `two-headers-${i}`;
      const fields = [
        ...[":method", ":scheme", ":path", ":authority"].map((name, j) =>
          h2Field(name, ["POST", "http", whoAmIPath, "localhost"][j] as string),
        ),
        h2Field("content-type", "application/grpc"),
        h2Field("x-request-id", id),
        ...tokens.map((token) => h2Field("authorization", `Bearer ${token}`)),
      ];
      const frames = Buffer.concat([
        h2Preface,
        h2Frame(4, 0, 0),
        h2Frame(1, 4, 1, Buffer.concat(fields)),
        h2Frame(0, 1, 1, Buffer.alloc(5)),
      ]);
      // Asked again until it is logged: only so many refusals of one reason are in a second.
      const connections: Awaited<ReturnType<typeof h1Connect>>[] = [];
      const logged = async () => {
        const connection = await h1Connect(gateway.url);
        connections.push(connection);
        connection.write(frames);
        return gateway.logged.find((line) => line.includes(id)) ?? "";
      };
      await expect.poll(logged, { timeout: 10_000, interval: 200 }).toContain('"reason":"invalid_token"');
      for (const connection of connections) connection.destroy();
    }
  });
});

describe("another tenant", () => {
  const scopes = ["platform-api.access", "policy.read", "artifacts.write", "evidence.write"];
  const clientOf = (tenantId: string): IssuerClient => ({
    clientId: `client-of-${tenantId}`,
    clientSecret: "a secret of the test",
    tenantId,
    // The same name in both: only the tenant tells them apart.
    principalId: "payroll-service",
    scopes,
  });
  let gateway: Gateway;
  let clients: readonly WireClient[];
  const tokens = { a: "", b: "" };
  beforeAll(async () => {
    gateway = await startGateway({ issuer: { clients: [clientOf("tenant-a"), clientOf("tenant-b")] } });
    clients = wireClients(gateway.url).filter(({ name }) => name === "REST" || name === "gRPC");
    tokens.a = await gateway.token({ clientId: "client-of-tenant-a" });
    tokens.b = await gateway.token({ clientId: "client-of-tenant-b" });
  });
  afterAll(async () => {
    for (const client of clients) client.close();
    await gateway.stop();
  });

  const about = { workload: { application: "a" }, resource: { kind: "file", id: "1" } };
  const ask = async (
    client: WireClient,
    route: string,
    token: string,
    body: Members,
    headers: Readonly<Record<string, string>> = {},
  ) => {
    const method = methodOn(`/v1/sdk/${route}`);
    const request = requestFromRest(method, body);
    return client.call(method, request, { authorization: `Bearer ${token}`, ...headers });
  };
  const answerOf = (outcome: Outcome) => {
    if ("answer" in outcome) return outcome.answer;
    throw new Error(outcome.refusal.reason);
  };

  test("both protocols are tried", () => expect(clients).toHaveLength(2));

  test("cannot cite a decision, and learns nothing of it that an invented id would not tell", async () => {
    for (const client of clients) {
      const decided = answerOf(await ask(client, "policy-resolve", tokens.a, { operation: "protect", ...about }));
      const { decision_id } = decided.decision;
      const artifact = { operation: "protect", ...about, artifact_profile: "tdf", artifact_digest: "sha256:00" };
      const event = { event_type: "protect", ...about };
      const invented = "0190a5c2-0000-7000-8000-000000000000";
      for (const [route, body] of [
        ["artifact-register", artifact],
        ["evidence", event],
      ] as const) {
        const headers = { "x-svc-receipt": "none" };
        const own = answerOf(await ask(client, route, tokens.a, { ...body, decision_id }, headers));
        const foreign = answerOf(await ask(client, route, tokens.b, { ...body, decision_id }, headers));
        const unknown = answerOf(await ask(client, route, tokens.b, { ...body, decision_id: invented }, headers));
        expect(foreign).toEqual(unknown);
        expect(foreign.warnings).not.toEqual(own.warnings);
        if (route === "artifact-register") {
          expect([own.registration.accepted, foreign.registration.accepted]).toEqual([true, false]);
        }
      }
    }
  });

  test("cannot be named in a tenant header, once, twice or joined", async () => {
    const authorization = `Bearer ${tokens.a}`;
    const named = (...values: string[]) => reasonFor(gateway.url, { authorization, "x-svc-tenant-id": values });
    expect(await named("tenant-a")).toBeUndefined();
    expect(await named("tenant-a", "tenant-a")).toBeUndefined();
    for (const values of [["tenant-b"], ["tenant-a", "tenant-b"], ["tenant-b", "tenant-a"], ["tenant-a, tenant-b"]]) {
      expect(await named(...values), values.join("|")).toBe("tenant_mismatch");
    }
    for (const value of ["TENANT-A", "tenant-a%00", "tenant-a\u00a0"])
      expect(await named(value)).toBe("tenant_mismatch");
  });
});

describe("guessing the secret of a session client", () => {
  const client = {
    tenantId: "tenant-a",
    clientId: "payroll-service",
    secret: "s".repeat(43),
    scopes: ["platform-api.access"],
  };
  const right = { tenantId: client.tenantId, clientId: client.clientId, clientSecret: client.secret };
  let deployment: SessionDeployment;
  let replica: Gateway;
  beforeAll(async () => {
    deployment = await startSessionDeployment([client]);
    replica = await startGateway({ dataDir: deployment.gateway.dataDir, env: deployment.env });
  });
  afterAll(async () => {
    await replica.stop();
    await deployment.stop();
  });

  test.each(sessionCallers)(
    "%s: twenty wrong attempts a minute from one address reach the limit",
    async (name, call) => {
      const urls = [deployment.gateway.url, replica.url];
      const attacker = { "x-forwarded-for": name === "REST" ? "198.51.100.7" : "198.51.100.8" };
      const outcomes = [];
      for (let i = 0; i < 20; i++) {
        // By turns at both replicas, for a client that is there and for others.
        const guess = { ...right, clientId: i % 4 === 0 ? `guess-${i}` : client.clientId, clientSecret: `guess-${i}` };
        outcomes.push(await call(urls[i % 2] as string, guess, attacker));
      }
      for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: "invalid_client" });
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

  test("a flood is refused quickly, and all others still get an answer", async () => {
    const [, call] = sessionCallers[0];
    const attacker = { "x-forwarded-for": "198.51.100.9" };
    const flood = Array.from({ length: 300 }, (_, i) =>
      call(deployment.gateway.url, { ...right, clientSecret: `guess-${i}` }, attacker),
    );
    expect((await rest(`${deployment.gateway.url}/v1/sdk/whoami`, {})).status).toBe(401);
    const reasons = (await Promise.all(flood)).map((outcome) => ("reason" in outcome ? outcome.reason : "let in"));
    expect(reasons.filter((reason) => reason === "invalid_client")).toHaveLength(20);
    // Admission refuses some before their attempt is counted, where the machine is slow.
    expect(reasons.filter((reason) => reason === "rate_limited" || reason === "overloaded")).toHaveLength(280);
    expect(await call(deployment.gateway.url, right, { "x-forwarded-for": "203.0.113.10" })).toHaveProperty("token");
  });
});
