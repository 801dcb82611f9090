/** Every refusal of the contract's error table that a caller can bring about, on the JSON routes and over gRPC. */
import { toBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { gatewayForFile, lockStore, rest } from "../harness/gateway.ts";
import { frame, refusalInEnvelope, refusalInTrailers, type WireRefusal } from "../harness/grpc.ts";
import { type H1Answer, h1Connect, h1Exchange, h1Request } from "../harness/h1.ts";
import { type H2Answer, type H2Call, h2Call, h2Connect } from "../harness/h2.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { methodOn, requestFromRest, wireMethods } from "../harness/methods.ts";
import type { Members } from "../harness/tokens.ts";

const maxBodyBytes = 4096;
const allScopes = "platform-api.access policy.read keys.use artifacts.write evidence.write";
const issuer = await issuerForFile();
const gateway = await gatewayForFile({
  env: { SVC_OIDC_ISSUER: issuer.url, SVC_MAX_BODY_BYTES: String(maxBodyBytes) },
  overrides: { limits: { bodyTimeoutMs: 100, maxDeadlineMs: 400 } },
});
const session = await h2Connect(gateway.url);
const token = mint();

function mint(claims: Members = {}): string {
  return issuer.token({ scope: allScopes, ...claims });
}

const plan = methodOn("/v1/sdk/protection-plan");
const sample = sampleCalls().find(({ route }) => route === plan.restPath)?.body ?? {};
// What callers declare, and what no answer may repeat.
const confidential = ["secret-label-value", "secret-attribute-key", "secret-attribute-value", "secret-header-value"];
const good = {
  ...sample,
  labels: ["secret-label-value"],
  attributes: { "secret-attribute-key": "secret-attribute-value" },
};

/** A call to protection-plan: good but for what is given. */
interface Faults {
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Members over those of a good request. */
  readonly members?: Readonly<Record<string, unknown>>;
}

/** What came of it, in one shape for both protocols. */
interface Refused extends WireRefusal {
  readonly status: number;
  readonly headers: (name: string) => string | undefined;
}

async function onRest({ headers = {}, members, ...faults }: Faults): Promise<Refused> {
  const bearer = "token" in faults ? faults.token : token;
  const body = JSON.stringify({ ...good, ...members });
  const lines = Object.entries({
    ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}`);
  return refusedOnRest(await h1Exchange(gateway.url, h1Request(`POST ${plan.restPath}`, lines, body)), bearer);
}

function refusedOnRest(answer: H1Answer | undefined, bearer = token): Refused {
  if (answer === undefined) throw new Error("no answer");
  expectDiscretion(JSON.stringify([answer.text, ...answer.headers]), bearer);
  const envelope = JSON.parse(answer.text);
  expect(Object.keys(envelope)).toEqual(["service", "status", "error"]);
  expect(envelope).toMatchObject({ service: "svc-platform-api", status: "error" });
  expect(answer.headers.get("content-type")).toBe("application/json");
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(answer.headers.get("x-request-id")).toBe(envelope.error.request_id);
  const refusal = refusalInEnvelope(envelope);
  expect(answer.headers.get("retry-after")).toBe(refusal.retryAfterSeconds?.toString());
  return { status: answer.status, headers: (name) => answer.headers.get(name), ...refusal };
}

async function onGrpc({ headers = {}, members, ...faults }: Faults): Promise<Refused> {
  const bearer = "token" in faults ? faults.token : token;
  const body = frame(toBinary(plan.desc.input, requestFromRest(plan, { ...good, ...members })));
  return refusedOnGrpc(await grpcCall({ body, headers }, bearer ?? null), bearer);
}

function grpcCall(call: Partial<H2Call>, bearer: string | null = token): Promise<H2Answer> {
  return h2Call(session, {
    path: plan.rpcPath,
    ...call,
    headers: {
      "content-type": "application/grpc",
      te: "trailers",
      ...(bearer !== null && { authorization: `Bearer ${bearer}` }),
      ...call.headers,
    },
  });
}

function refusedOnGrpc(answer: H2Answer, bearer = token): Refused {
  expectDiscretion(JSON.stringify([answer.headers, answer.trailers, answer.body.toString("latin1")]), bearer);
  const details = Buffer.from(String(answer.trailers["grpc-status-details-bin"]), "base64").toString("latin1");
  expectDiscretion(details, bearer);
  const refusal = refusalInTrailers(answer.trailers);
  if (refusal === undefined) throw new Error("not refused");
  expect(answer.headers["cache-control"]).toBe("no-store");
  expect(answer.headers["x-request-id"]).toBe(refusal.requestId);
  expect(answer.trailers["retry-after"]).toBe(refusal.retryAfterSeconds?.toString());
  return { status: answer.status, headers: (name) => answer.trailers[name]?.toString(), ...refusal };
}

function expectDiscretion(answer: string, bearer: string): void {
  for (const part of bearer.split(".").filter(({ length }) => length > 8)) expect(answer).not.toContain(part);
  for (const text of confidential) expect(answer).not.toContain(text);
}

describe.each([
  ["the JSON routes", onRest, true],
  ["gRPC", onGrpc, false],
] as const)("over %s", (_protocol, call, isRest) => {
  const status = (http: number) => (isRest ? http : 200);

  test.each<[string, () => Faults, string]>([
    ["no credentials", () => ({ token: undefined }), "missing_token"],
    ["another scheme", () => ({ headers: { authorization: "Basic c2VjcmV0LWhlYWRlci12YWx1ZQ==" } }), "missing_token"],
    ["a malformed token", () => ({ token: "secret-header-value" }), "invalid_token"],
    ["an expired token", () => ({ token: mint({ exp: Math.floor(Date.now() / 1000) - 60 }) }), "expired_token"],
  ])("401 for %s, with a challenge", async (_name, faults, reason) => {
    const refused = await call(faults());
    expect(refused).toMatchObject({ status: status(401), code: "unauthenticated", reason, fields: [] });
    const challenge = reason === "missing_token" ? 'Bearer realm="sdk"' : 'Bearer realm="sdk", error="invalid_token"';
    expect(refused.headers("www-authenticate")?.startsWith(challenge)).toBe(true);
    expect(reason === "missing_token" && refused.headers("www-authenticate")?.includes("error")).toBe(false);
  });

  test("403 for a tenant header that differs", async () => {
    const refused = await call({ headers: { "x-svc-tenant-id": "secret-header-value" } });
    expect(refused).toMatchObject({ status: status(403), code: "permission_denied", reason: "tenant_mismatch" });
    expect(refused.headers("www-authenticate")).toBeUndefined();
  });

  test("403 for missing scopes, which it names", async () => {
    const refused = await call({ token: mint({ scope: "evidence.write" }) });
    expect(refused).toMatchObject({
      status: status(403),
      code: "permission_denied",
      reason: "missing_scope",
      requiredScopes: "platform-api.access policy.read",
      missingScopes: "platform-api.access policy.read",
    });
    expect(refused.headers("www-authenticate")).toBe(
      'Bearer realm="sdk", error="insufficient_scope", scope="platform-api.access policy.read"',
    );
    expect(await call({ token: mint({ scope: "platform-api.access" }) })).toMatchObject({
      missingScopes: "policy.read",
    });
  });

  test("504 if the caller cannot wait for a store that is down", async () => {
    using _ = lockStore(gateway);
    expect(await call({})).toMatchObject({ status: status(504), reason: "deadline_exceeded" });
  });

  test("faults of the headers are reported first, in a fixed order", async () => {
    // Everything is wrong; each step puts one thing right.
    const members = { workload: { application: "" } };
    const headers = { "x-svc-tenant-id": "tenant-b" };
    const weak = mint({ scope: "" });
    expect(await call({ token: "x", headers, members })).toMatchObject({ reason: "invalid_token" });
    expect(await call({ token: weak, headers, members })).toMatchObject({ reason: "tenant_mismatch" });
    expect(await call({ token: weak, members })).toMatchObject({ reason: "missing_scope" });
    expect(await call({ members })).toMatchObject({ reason: "invalid_request" });
  });

  test("a valid request id is echoed, an invalid one is replaced", async () => {
    const refused = (id: string) => call({ token: undefined, headers: { "x-request-id": id } });
    expect(await refused("A.b_c-1")).toMatchObject({ requestId: "A.b_c-1" });
    expect(await refused("x".repeat(128))).toMatchObject({ requestId: "x".repeat(128) });
    for (const bad of ["x".repeat(129), "secret-header-value!", "a b", ""])
      expect((await refused(bad)).requestId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
  });
});

describe("bodies", () => {
  const authorized = () => [`Authorization: Bearer ${token}`];
  const post = `POST ${plan.restPath}`;

  test("413 before the body if its length says so, otherwise while it is read", async () => {
    const declared = h1Request(post, [...authorized(), "Content-Type: application/json", "Content-Length: 4097"]);
    expect(refusedOnRest(await h1Exchange(gateway.url, declared))).toMatchObject({ status: 413 });
    const chunked = [...authorized(), "Content-Type: application/json", "Transfer-Encoding: chunked"];
    const body = `1001\r\n${"x".repeat(4097)}\r\n`;
    const answer = await h1Exchange(gateway.url, h1Request(post, chunked, body));
    expect(refusedOnRest(answer)).toMatchObject({ status: 413, reason: "body_too_large" });
  });

  test.each([
    "application/json",
    "Application/JSON",
    'application/json;charset="UTF-8"',
    "application/json ; charset=utf-8",
    "application/json;",
    "application/json; ; charset=utf-8;",
  ])("%s is accepted", async (type) => {
    const body = JSON.stringify(good);
    const headers = [...authorized(), `Content-Type: ${type}`, `Content-Length: ${Buffer.byteLength(body)}`];
    expect(await h1Exchange(gateway.url, h1Request(post, headers, body))).toMatchObject({ status: 200 });
  });

  test("content type is checked before size, and size before content", async () => {
    const wrongType = h1Request(post, [...authorized(), "Content-Type: text/plain", "Content-Length: 99999"]);
    expect(refusedOnRest(await h1Exchange(gateway.url, wrongType))).toMatchObject({ status: 415 });
    const compressed = ["Content-Type: application/json", "Content-Encoding: gzip", "Content-Length: 2"];
    const encoded = h1Request(post, [...authorized(), ...compressed], "{}");
    expect(refusedOnRest(await h1Exchange(gateway.url, encoded))).toMatchObject({ status: 415 });
    const tooLarge = h1Request(post, [...authorized(), "Content-Type: application/json", "Content-Length: 99999"], "[");
    expect(refusedOnRest(await h1Exchange(gateway.url, tooLarge))).toMatchObject({ status: 413 });
  });

  test("a caller that waits for 100 Continue gets a refusal, or may continue", async () => {
    const expecting = ["Content-Type: application/json", "Content-Length: 2", "Expect: 100-continue"];
    expect(refusedOnRest(await h1Exchange(gateway.url, h1Request(post, expecting)))).toMatchObject({ status: 401 });
    const connection = await h1Connect(gateway.url);
    connection.write(h1Request(post, [...authorized(), ...expecting]));
    expect(await connection.next()).toMatchObject({ status: 100 });
    connection.write("{}");
    expect(refusedOnRest(await connection.next())).toMatchObject({ status: 400 });
    connection.destroy();
    const older = h1Request(post, [...authorized(), ...expecting], "{}").replace("HTTP/1.1", "HTTP/1.0");
    expect(refusedOnRest(await h1Exchange(gateway.url, older))).toMatchObject({ status: 400 });
  });

  test("408 for a body that is too slow", async () => {
    const request = h1Request(post, [...authorized(), "Content-Type: application/json", "Content-Length: 9"], '{"a"');
    const refused = { code: "deadline_exceeded", reason: "request_timeout" };
    expect(refusedOnRest(await h1Exchange(gateway.url, request))).toMatchObject({ status: 408, ...refused });
    // As a bare stream, and as a request of fastify's.
    for (const type of ["application/grpc", "Application/grpc"]) {
      const call = { unfinished: true, body: frame(Buffer.alloc(1), 0, 9), headers: { "content-type": type } };
      expect(refusedOnGrpc(await grpcCall(call))).toMatchObject(refused);
    }
  });

  test("a token in the query or in the body is none", async () => {
    for (const path of [`whoami?access_token=${token}`, "evidence"]) {
      const body = path === "evidence" ? { body: { access_token: token } } : {};
      expect((await rest(`${gateway.url}/v1/sdk/${path}`, body)).body.error.reason).toBe("missing_token");
    }
  });

  test("a GET with a body is refused", async () => {
    const headers = [...authorized(), "Content-Type: application/json", "Content-Length: 2"];
    const answer = await h1Exchange(gateway.url, h1Request("GET /v1/sdk/whoami", headers, "{}"));
    expect(refusedOnRest(answer)).toMatchObject({ status: 400, reason: "invalid_request" });
  });
});

describe("routes", () => {
  test.each([
    "/v1/sdk",
    "/v1/sdk/",
    "/v1/sdk/Whoami",
    "/v1/sdk/whoami/",
    "/v1//sdk/whoami",
    "/v1/sdk/whoami/x",
    "/v1/sdk/%77hoami%",
    "/v1/sdk/../sdk/whoami",
    "/v1/sdk/session",
    "/livez",
    "/metrics",
    ...["//", "/%", "/%ff", "/%00", "/v1/sdk/whoami%00", "/v1/sdk/%2e%2e/whoami", "/v1/sdk/whoami;a=b"],
    ...["/__proto__", "/constructor/prototype", "/platform.sdk.v1.DiscoveryService/"],
  ])("404 for %s, with a token and without", async (path) => {
    for (const headers of [[], [`Authorization: Bearer ${token}`]]) {
      const answer = await h1Exchange(gateway.url, h1Request(`GET ${path}`, headers));
      expect(refusedOnRest(answer)).toMatchObject({ status: 404, code: "not_found", reason: "no_route" });
    }
  });

  test.each(
    wireMethods.map((method) => [method.restPath, method.verb === "GET" ? ["GET", "HEAD"] : ["POST"]] as const),
  )("405 on %s for all but %j", async (path, allowed) => {
    for (const verb of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]) {
      const answer = await h1Exchange(gateway.url, h1Request(`${verb} ${path}`, ["Content-Length: 0"]));
      if ((allowed as readonly string[]).includes(verb)) {
        expect(answer).toMatchObject({ status: 401 });
      } else if (verb === "HEAD") {
        expect(answer).toMatchObject({ status: 405 });
      } else {
        const refused = refusedOnRest(answer);
        expect(refused).toMatchObject({ status: 405, code: "unimplemented", reason: "method_not_allowed" });
        expect(refused.headers("allow")).toBe(allowed.join(", "));
      }
    }
  });

  test("HEAD answers as GET does, without the body", async () => {
    const headers = [`Authorization: Bearer ${token}`];
    const get = await h1Exchange(gateway.url, h1Request("GET /v1/sdk/whoami", headers));
    const head = await h1Exchange(gateway.url, h1Request("HEAD /v1/sdk/whoami", headers));
    expect(head?.status).toBe(200);
    for (const name of ["content-type", "content-length", "cache-control"])
      expect(head?.headers.get(name)).toBe(get?.headers.get(name));
  });
});
