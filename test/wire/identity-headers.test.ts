/** Callers whom a trusted ingress names in headers: what counts, on the JSON routes and over gRPC. */
import { describe, expect, test } from "vitest";
import { type Lines, reasonOnBoth } from "../harness/both-wires.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { h1Exchange, h1Request } from "../harness/h1.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";

const good: Lines = [
  ["x-svc-tenant-id", "tenant-a"],
  ["x-svc-user-id", "payroll-service"],
  ["x-svc-subject", "client 1"],
  ["x-svc-scopes", "platform-api.access evidence.write"],
];
const replaced = (name: string, ...values: string[]): Lines => [
  ...good.filter(([candidate]) => candidate !== name),
  ...values.map((value) => [name, value] as const),
];

/** A gateway for all tests of the file, and a session of its own for HTTP/2. */
async function edgeForFile(env: Record<string, string>) {
  const gateway = await gatewayForFile({ env });
  return { gateway, session: await h2Connect(gateway.url) };
}
type Edge = Awaited<ReturnType<typeof edgeForFile>>;

const reasonFor = ({ gateway, session }: Edge, lines: Lines) => reasonOnBoth(gateway.url, session, lines);

const trusting = await edgeForFile({ SVC_AUTH_MODE: "trusted_headers", SVC_TRUSTED_PROXIES: "127.0.0.1" });

describe("trusted_headers", () => {
  test("the caller is the one that the ingress names, and discovery says how", async () => {
    const { body } = await rest(`${trusting.gateway.url}/v1/sdk/capabilities`, { headers: Object.fromEntries(good) });
    expect(body).toMatchObject({
      auth_mode: "trusted_headers",
      auth_configuration: { mode: "bearer_token_validation", proof_of_possession: "none", oidc_issuer_ready: false },
      caller: {
        tenant_id: "tenant-a",
        principal_id: "payroll-service",
        subject: "client 1",
        auth_source: "trusted_headers",
        scopes: ["platform-api.access", "evidence.write"],
      },
    });
    expect(body.auth_configuration).not.toHaveProperty("oidc_issuer");
    expect((await fetch(`${trusting.gateway.opsUrl}/readyz`)).status).toBe(200);
  });

  test.each<[string, Lines, string | undefined]>([
    ["names in odd case", good.map(([name, value]) => [name.toUpperCase(), value]), undefined],
    ["a token besides, which this mode does not look at", [...good, ["authorization", "Bearer abc"]], undefined],
    ["no identity at all", [], "missing_token"],
    ["a token alone", [["authorization", "Bearer abc"]], "missing_token"],
    ["no scopes that this route needs", replaced("x-svc-scopes", "evidence.write"), "missing_scope"],
    ["the tenant twice, in two cases", [...good, ["X-Svc-Tenant-Id", "tenant-b"]], "invalid_token"],
    ["names with underscores", good.map(([name, value]) => [name.replaceAll("-", "_"), value]), "missing_token"],
  ])("%s: %s %s", async (_name, lines, reason) => {
    expect(await reasonFor(trusting, lines)).toBe(reason);
  });

  test("identity in trailers is ignored", async () => {
    const { trailers } = await h2Call(trusting.session, {
      path: "/platform.sdk.v1.DiscoveryService/WhoAmI",
      headers: { "content-type": "application/grpc" },
      body: frame(Buffer.alloc(0)),
      trailers: Object.fromEntries(good),
    });
    expect(refusalInTrailers(trailers)?.reason).toBe("missing_token");
    const head = h1Request("POST /v1/sdk/evidence", ["content-type: application/json", "transfer-encoding: chunked"]);
    const body = `2\r\n{}\r\n0\r\n${good.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
    expect((await h1Exchange(trusting.gateway.url, head + body))?.text).toContain("missing_token");
  });

  test("no identity of an earlier call on the connection is remembered", async () => {
    for (const lines of [good, [], good])
      expect(await reasonFor(trusting, lines)).toBe(lines === good ? undefined : "missing_token");
  });
});

const either = await edgeForFile({
  SVC_AUTH_MODE: "bearer_token_or_trusted_headers",
  SVC_TRUSTED_PROXIES: "127.0.0.1",
});
const token = await either.gateway.token();

describe("bearer_token_or_trusted_headers", () => {
  const authorization = (value: string) => ["authorization", value] as const;

  test.each<[string, () => Lines, string | undefined]>([
    ["headers alone", () => good, undefined],
    ["a token alone", () => [authorization(`Bearer ${token}`)], undefined],
    ["both, of one tenant", () => [...good, authorization(`Bearer ${token}`)], undefined],
    [
      "both, of two tenants",
      () => [...replaced("x-svc-tenant-id", "tenant-b"), authorization(`Bearer ${token}`)],
      "tenant_mismatch",
    ],
    [
      "both, the tenant header twice",
      () => [...replaced("x-svc-tenant-id", "tenant-a", "tenant-b"), authorization(`Bearer ${token}`)],
      "tenant_mismatch",
    ],
    ["a bad token and good headers", () => [...good, authorization("Bearer abc")], "invalid_token"],
    ["another scheme and good headers", () => [...good, authorization("Basic abc")], "missing_token"],
    ["an empty Authorization and good headers", () => [...good, authorization("")], "missing_token"],
    [
      "two tokens and good headers",
      () => [...good, authorization(`Bearer ${token}`), authorization(`Bearer ${token}`)],
      "invalid_token",
    ],
  ])("%s", async (_name, lines, reason) => {
    // A client of HTTP/2 refuses to send the header twice; over HTTP/1.1 the bytes are ours.
    if (_name !== "two tokens and good headers") return expect(await reasonFor(either, lines())).toBe(reason);
    const headers = lines().map(([name, value]) => `${name}: ${value}`);
    const answer = await h1Exchange(either.gateway.url, h1Request("GET /v1/sdk/whoami", headers));
    expect(JSON.parse(answer?.text ?? "").error.reason).toBe(reason);
  });

  test("the token decides the caller if both are present", async () => {
    const headers = Object.fromEntries(replaced("x-svc-user-id", "another-principal"));
    const { body } = await rest(`${either.gateway.url}/v1/sdk/whoami`, { token, headers });
    expect(body.caller).toMatchObject({ principal_id: "payroll-service", auth_source: "bearer_token" });
  });
});

const elsewhere = await edgeForFile({ SVC_AUTH_MODE: "trusted_headers", SVC_TRUSTED_PROXIES: "127.0.0.2" });

test("from an address that is not the ingress, identity headers are ignored, counted and logged without their values", async () => {
  expect(await reasonFor(elsewhere, good)).toBe("missing_token");
  const forwarded: Lines = [...good, ["x-forwarded-for", "127.0.0.2"], ["forwarded", "for=127.0.0.2"]];
  expect(await reasonFor(elsewhere, forwarded)).toBe("missing_token");
  const metrics = await (await fetch(`${elsewhere.gateway.opsUrl}/metrics`)).text();
  expect(metrics).toContain("svc_identity_headers_ignored_total 4");
  const logged = elsewhere.gateway.logged.join("");
  expect(logged).toContain("identity headers of an untrusted peer ignored");
  expect(logged).not.toContain("payroll-service");
});

test("identity headers that are ignored by the hundred leave few lines in the log", async () => {
  await Promise.all(Array.from({ length: 100 }, () => reasonFor(elsewhere, good)));
  const lines = elsewhere.gateway.logged.filter((line) => line.includes('"identity_headers_ignored"'));
  expect(lines.length).toBeLessThan(150);
});
