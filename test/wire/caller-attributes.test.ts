/** Attributes of callers that the policy manifest declares: from credentials to decision, record and replay. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { constants } from "node:http2";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { runCommandLine } from "../../src/cli/run.ts";
import { wireClients } from "../harness/clients.ts";
import { type Gateway, rest, startGateway, unpolled } from "../harness/gateway.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { h1Connect, h1Exchange, h1Request } from "../harness/h1.ts";
import { h2Call, h2Close, h2Connect } from "../harness/h2.ts";
import { startStaticIssuer } from "../harness/issuer.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { sessionByRest, startSessionDeployment } from "../harness/sessions.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";
import { captureTerminal } from "../unit/cli/terminal.ts";

const key = newTestKey("ES256", "key");
const plan = { operation: "access", workload: { application: "wards" }, resource: { kind: "patient" } };
const manifest = 'platform: platform\ntenants: { "*": default }\n';
const declaring = `${manifest}caller_attributes:
  clearance: { type: whole_number, claim: clearance, required: true }
  roles: { type: set_of_text, claim: realm_access.roles }
`;
const files = {
  "manifest.yaml": declaring,
  "platform/all.cedar": '@id("all") permit (principal, action, resource);\n',
  "default/doctors.cedar": `@id("doctors") permit (principal, action, resource)
when { principal.clearance >= 2 && principal has roles && principal.roles.contains("doctor") };\n`,
};

let policies: string;
let gateway: Gateway;
let stop: () => Promise<void>;

const issuer = await startStaticIssuer([key.publicJwk]);
afterAll(() => issuer.stop());
beforeEach(async () => {
  policies = await mkdtemp(join(tmpdir(), "caller-attributes-"));
  for (const [file, text] of Object.entries(files)) await write(file, text);
  for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) vi.stubEnv(name, undefined);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await stop();
  await rm(policies, { recursive: true });
});

async function write(file: string, text: string): Promise<void> {
  await mkdir(dirname(join(policies, file)), { recursive: true });
  await writeFile(join(policies, file), text);
}

/** Settings under which the directory is looked at when a test says so. */
const settings = () => ({ SVC_POLICY_DIR: policies, SVC_OIDC_ISSUER: issuer.url });

async function start(env: Record<string, string> = {}): Promise<void> {
  gateway = await startGateway({ env: { ...settings(), ...env }, overrides: unpolled });
  stop = gateway.stop;
}

function tokenWith(claims: object): string {
  return mintToken(key, claimsOf(issuer.url, Date.now(), { ...claims }));
}

const doctor = { clearance: 2, realm_access: { roles: ["nurse", "doctor", "nurse"] } };
const ask = async (token: string, headers = {}) =>
  await rest(`${gateway.url}/v1/sdk/protection-plan`, { token, body: plan, headers });
const recordOf = ({ decision }: { decision: { receipt: { record: string } } }) =>
  JSON.parse(Buffer.from(decision.receipt.record, "base64").toString());

async function replay(decisionId: string) {
  vi.stubEnv("SVC_STORE", `sqlite:${join(gateway.dataDir, "platform.db")}`);
  vi.stubEnv("SVC_POLICY_DIR", policies);
  const { terminal, written } = captureTerminal();
  await runCommandLine(["policy", "replay", "--decision", decisionId, "--tenant", "tenant-a", "--json"], terminal);
  return JSON.parse(written.out);
}

test("decide, are recorded, and are shown to the caller alone", async () => {
  await start();
  const { body } = await ask(tokenWith(doctor));
  expect(body.decision).toMatchObject({ allow: true, reasons: ["platform/all", "tenant/doctors"] });
  expect(recordOf(body).outcome.caller_attributes).toEqual({ clearance: 2, roles: ["doctor", "nurse"] });
  expect(recordOf(body).caller).toEqual({
    ...{ principal_id: "payroll-service", subject: "client-1", auth_source: "bearer_token" },
  });
  const { record: _, ...receipt } = body.decision.receipt;
  const others = { ...body, decision: { ...body.decision, receipt } };
  expect(JSON.stringify(others)).not.toMatch(/doctor"|nurse/);

  const resolved = await rest(`${gateway.url}/v1/sdk/policy-resolve`, { token: tokenWith(doctor), body: plan });
  expect(resolved.body.decision.policy_inputs).toEqual(["caller.attributes.clearance", "caller.attributes.roles"]);
  const denied = await ask(tokenWith({ clearance: 1, realm_access: { roles: ["doctor"] } }));
  expect(denied.body.decision).toMatchObject({ allow: false, reasons: [] });
  const plain = await ask(tokenWith({ clearance: 9 }));
  expect(plain.body.decision.allow).toBe(false);
  expect(recordOf(plain.body).outcome.caller_attributes).toEqual({ clearance: 9 });

  const told = gateway.logged.join("\n") + (await (await fetch(`${gateway.opsUrl}/metrics`)).text());
  expect(told).not.toMatch(/nurse|clearance/);
});

test("that are required and missing, or of another type, refuse every call and say which", async () => {
  await start();
  const session = await h2Connect(gateway.url);
  for (const claims of [
    {},
    { clearance: "secret-value" },
    { clearance: null },
    { clearance: [2] },
    { clearance: 2.5 },
  ]) {
    const token = tokenWith(claims);
    const { status, body, headers } = await rest(`${gateway.url}/v1/sdk/whoami`, { token });
    expect([status, body.error.reason]).toEqual([401, "invalid_token"]);
    expect(body.error.message).toBe("the access token carries no valid attribute clearance");
    expect(headers.get("www-authenticate")).toContain('error="invalid_token"');
    const { trailers } = await h2Call(session, {
      path: "/platform.sdk.v1.DiscoveryService/WhoAmI",
      headers: { "content-type": "application/grpc", authorization: `Bearer ${token}` },
      body: frame(Buffer.alloc(0)),
    });
    expect(refusalInTrailers(trailers)).toMatchObject({ code: "unauthenticated", reason: "invalid_token" });
  }
  await h2Close(session);
  expect(gateway.logged.join("\n")).not.toContain("secret-value");
  expect((await ask(tokenWith({ ...doctor, realm_access: { roles: "doctor" } }))).body.decision.allow).toBe(false);
});

const codes = (count: number) => JSON.stringify(Array.from({ length: count }, (_, index) => index.toString(36)));
const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
const noClearance = {
  ...{ code: "unauthenticated", reason: "invalid_token" },
  message: "the access token carries no valid attribute clearance",
};
const tooLong = { code: "unauthenticated", reason: "invalid_token", message: "the Authorization header is too long" };

test("of any size and shape are read, absent or refused, alike on every protocol", async () => {
  await write(
    "manifest.yaml",
    `${declaring}  ward: { type: text }
  constructor: { type: text }
  own: { type: text, claim: ["__proto__"] }
  stringly: { type: text, claim: [toString, valueOf] }
  on_call: { type: yes_no, claim: realm_access.__proto__ }
`,
  );
  await start();
  const clients = wireClients(gateway.url);
  /** Claims as JSON text: objects of the language keep no member `__proto__`, and no number beyond what they hold. */
  const tokenOf = (claims: string) => {
    const usual = JSON.stringify(claimsOf(issuer.url, Date.now()));
    return mintToken(key, `${usual.slice(0, -1)},${claims}}`);
  };
  const method = methodOn("/v1/sdk/protection-plan");
  const two = '"clearance":2';
  const cases: readonly (readonly [claims: string, expected: object])[] = [
    [`${two},"realm_access":{"roles":${codes(1_000)}}`, { clearance: 2, roles: JSON.parse(codes(1_000)).sort() }],
    [`${two},"realm_access":{"roles":${codes(1_001)}}`, { clearance: 2 }],
    [`${two},"realm_access":{"roles":["a",1]}`, { clearance: 2 }],
    [`${two},"realm_access":{"roles":["a",["b"]]}`, { clearance: 2 }],
    [`${two},"realm_access":{"roles":["a","a\\u0000"]}`, { clearance: 2 }],
    [`${two},"realm_access":{"roles":["\\ud800"]}`, { clearance: 2 }],
    [`${two},"realm_access":{"roles":[]}`, { clearance: 2, roles: [] }],
    [`${two},"realm_access":[{"roles":["a"]}]`, { clearance: 2 }],
    [`${two},"ward":"${"w".repeat(1_024)}"`, { clearance: 2, ward: "w".repeat(1_024) }],
    [`${two},"ward":"${"w".repeat(1_025)}"`, { clearance: 2 }],
    [`${two},"realm_access":{"roles":${nested(1_000)}},"other":${nested(1_000)}`, { clearance: 2 }],
    ['"clearance":9007199254740991', { clearance: 9007199254740991 }],
    ['"clearance":-9007199254740991', { clearance: -9007199254740991 }],
    ['"clearance":2e0', { clearance: 2 }],
    ...["9007199254740992", "9007199254740993", "-9007199254740992", "1e300", "1e999", "2.5", nested(1_000)].map(
      (value) => [`"clearance":${value}`, noClearance] as const,
    ),
    ['"__proto__":{"clearance":2}', noClearance],
    [
      `${two},"__proto__":"a","constructor":"b","toString":{"valueOf":"c"}`,
      { ...{ clearance: 2, constructor: "b" }, own: "a", stringly: "c" },
    ],
    [`${two},"realm_access":{"__proto__":{"roles":["doctor"]}}`, { clearance: 2 }],
    [`${two},"realm_access":{"__proto__":true}`, { clearance: 2, on_call: true }],
    [`${two},"toString":null,"constructor":{"name":"b"}`, { clearance: 2 }],
    [`${two},"realm_access":{"roles":${codes(2_500)}}`, tooLong],
  ];
  for (const [claims, expected] of cases) {
    const headers = { authorization: `Bearer ${tokenOf(claims)}` };
    for (const client of clients) {
      const outcome = await client.call(method, requestFromRest(method, plan), headers);
      const seen = "refusal" in outcome ? outcome.refusal : recordOf(outcome.answer).outcome.caller_attributes;
      if ("reason" in expected) expect(seen, `${client.name} ${claims}`).toMatchObject(expected);
      else expect(seen, `${client.name} ${claims.slice(0, 80)}`).toEqual(expected);
    }
  }
  expect(gateway.logged.filter((line) => line.includes('"level":"error"'))).toEqual([]);

  // So many groups that the headers are larger than those of any request.
  const headers = { authorization: `Bearer ${tokenOf(`${two},"realm_access":{"roles":${codes(10_000)}}`)}` };
  for (const { path, type } of [
    { path: method.restPath, type: "application/json" },
    { path: method.rpcPath, type: "application/json" },
    { path: method.rpcPath, type: "application/grpc-web+proto" },
  ]) {
    const lines = [`Authorization: ${headers.authorization}`, `Content-Type: ${type}`, "Content-Length: 0"];
    const answer = await h1Exchange(gateway.url, h1Request(`POST ${path}`, lines));
    expect(answer, type).toMatchObject({ status: 431 });
    expect(JSON.parse(answer?.text ?? "")).toMatchObject({
      error: { code: "invalid_argument", reason: "invalid_request", message: "request headers are too large" },
    });
  }
  const session = await h2Connect(gateway.url, { maxSendHeaderBlockLength: 1024 * 1024 });
  // From the second call on the session both know the limit; before that, the header itself is refused.
  const first = await h2Call(session, { method: "GET", path: "/v1/sdk/whoami", headers });
  expect([first.status, JSON.parse(first.body.toString()).error]).toMatchObject([401, tooLong]);
  for (const type of ["application/json", "application/grpc", "application/grpc-web+proto", "application/proto"]) {
    const path = type === "application/json" ? method.restPath : method.rpcPath;
    const { status, resetCode } = await h2Call(session, { path, headers: { ...headers, "content-type": type } });
    expect([status, resetCode], type).toEqual([0, constants.NGHTTP2_ENHANCE_YOUR_CALM]);
  }
  await h2Close(session);
  for (const client of clients) client.close();
  const { body } = await ask(tokenWith(doctor));
  expect(body.decision.allow).toBe(true);
});

test("a decision comes out again years later, whatever is declared then", async () => {
  await start();
  const token = tokenWith(doctor);
  const { decision } = (await ask(token)).body;
  await write("manifest.yaml", `${manifest}caller_attributes:\n  grade: { type: text, claim: grade }\n`);
  await write(
    "default/doctors.cedar",
    '@id("grades") permit (principal, action, resource) when { principal has grade };\n',
  );
  await gateway.app.reload();
  const other = (await ask(tokenWith({ grade: "a" }))).body;
  expect(other.decision).toMatchObject({ allow: true, reasons: ["platform/all", "tenant/grades"] });
  expect(recordOf(other).outcome.caller_attributes).toEqual({ grade: "a" });
  // The token that was remembered is read again.
  expect(recordOf((await ask(token)).body).outcome.caller_attributes).toEqual({});

  const replayed = await replay(decision.decision_id);
  expect(replayed).toMatchObject({ ok: true, status: "reproduced", own: { differences: [] } });
  expect(replayed.recorded.caller_attributes).toEqual({ clearance: 2, roles: ["doctor", "nurse"] });
  expect(replayed.current.outcome).toMatchObject({ allow: false });

  await write("manifest.yaml", manifest);
  await write("default/doctors.cedar", '@id("everybody") permit (principal, action, resource);\n');
  await gateway.app.reload();
  expect(recordOf((await ask(token)).body).outcome).not.toHaveProperty("caller_attributes");
  expect(await replay(other.decision.decision_id)).toMatchObject({ status: "reproduced" });
});

test("are never taken for those of another claim: what a reload declares is read again", async () => {
  await start();
  const token = tokenWith({ clearance: 2, realm_access: { roles: ["doctor"] }, groups: ["porter"] });
  const body = JSON.stringify(plan);
  const head = h1Request("POST /v1/sdk/protection-plan", [
    `Authorization: Bearer ${token}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "Expect: 100-continue",
  ]);
  /** Asks; the caller is known by the time that the policies are replaced, and the question is not. */
  const askAround = async (replace: () => Promise<void>) => {
    const connection = await h1Connect(gateway.url);
    connection.write(head);
    expect(await connection.next()).toMatchObject({ status: 100 });
    await replace();
    await gateway.app.reload();
    connection.write(body);
    const answer = await connection.next();
    connection.destroy();
    return { status: answer?.status, body: JSON.parse(answer?.text ?? "{}"), headers: answer?.headers };
  };
  const refused = await askAround(() => write("manifest.yaml", declaring.replace("realm_access.roles", "groups")));
  expect(refused).toMatchObject({ status: 503, body: { error: { reason: "policy_unavailable" } } });
  expect(refused.headers?.get("retry-after")).toBe("1");
  expect((await ask(token)).body.decision).toMatchObject({ allow: false, reasons: [] });
  // Other policies about the same attributes decide at once.
  const decided = await askAround(() =>
    write("default/doctors.cedar", files["default/doctors.cedar"].replace('"doctor"', '"porter"')),
  );
  expect(decided).toMatchObject({ status: 200, body: { decision: { allow: true } } });
});

test("come from the headers of a trusted ingress, one for each", async () => {
  const headers = '{"clearance":"remote-clearance","roles":"remote-groups","role":"remote-role"}';
  const modes = { SVC_AUTH_MODE: "bearer_token_or_trusted_headers", SVC_TRUSTED_PROXIES: "127.0.0.1" };
  await start({ ...modes, SVC_ATTRIBUTE_HEADERS: headers });
  const identity = {
    ...{ "x-svc-tenant-id": "tenant-a", "x-svc-user-id": "u", "x-svc-subject": "s" },
    ...{ "x-svc-scopes": "platform-api.access policy.read" },
  };
  const through = (more: Record<string, string>) =>
    rest(`${gateway.url}/v1/sdk/protection-plan`, { body: plan, headers: { ...identity, ...more } });
  const allowed = await through({ "remote-clearance": "3", "remote-groups": "doctor ward%207" });
  expect(allowed.body.decision.allow).toBe(true);
  expect(recordOf(allowed.body).outcome.caller_attributes).toEqual({ clearance: 3, roles: ["doctor", "ward 7"] });
  expect((await through({ "remote-clearance": "3" })).body.decision.allow).toBe(false);
  for (const [count, roles] of [
    [1_000, JSON.parse(codes(1_000)).sort()],
    [1_001, undefined],
  ] as const) {
    const { body } = await through({ "remote-clearance": "3", "remote-groups": JSON.parse(codes(count)).join(" ") });
    expect(recordOf(body).outcome.caller_attributes).toEqual({ clearance: 3, ...(roles && { roles }) });
  }
  for (const number of ["9007199254740992", "9".repeat(400), "1e3", "-0"]) {
    const { status, body } = await through({ "remote-clearance": number });
    expect([status, body.error.reason, body.error.message]).toEqual([
      ...[401, "invalid_token", "no valid header for the attribute clearance"],
    ]);
  }
  const refused = await through({ "remote-clearance": "3, 4" });
  expect([refused.status, refused.body.error.reason]).toEqual([401, "invalid_token"]);
  const line = gateway.logged.find((candidate) => candidate.includes("SVC_ATTRIBUTE_HEADERS"));
  expect(JSON.parse(line ?? "{}")).toMatchObject({ level: "warn", attributes: ["role"] });
  // Beside a token the headers are ignored.
  const withToken = await ask(tokenWith({ clearance: 0 }), { ...identity, "remote-clearance": "3" });
  expect(recordOf(withToken.body).outcome.caller_attributes).toEqual({ clearance: 0 });
});

test("of a session client are those of the clients file", async () => {
  const client = {
    ...{ tenantId: "tenant-a", clientId: "rounds", secret: "s".repeat(43) },
    scopes: ["platform-api.access", "policy.read"],
    attributes: { clearance: 2, roles: ["doctor"], shoe_size: "a secret size" },
  };
  const weak = { ...client, clientId: "cleaner", attributes: { roles: ["doctor"] } };
  const { SVC_OIDC_ISSUER: _, ...env } = settings();
  // Another tenant's client of the same name has its own.
  const namesake = { ...client, tenantId: "tenant-b", attributes: { clearance: 0, roles: ["porter"] } };
  const deployment = await startSessionDeployment([client, weak, namesake as typeof client], env);
  ({ gateway, stop } = deployment);
  const tokenOf = async ({ tenantId, clientId, secret: clientSecret }: typeof client) => {
    const outcome = await sessionByRest(gateway.url, { tenantId, clientId, clientSecret });
    return "token" in outcome ? outcome.token : "";
  };
  const { body } = await ask(await tokenOf(client));
  expect(body.decision.allow).toBe(true);
  expect(recordOf(body).outcome.caller_attributes).toEqual({ clearance: 2, roles: ["doctor"] });
  const other = (await ask(await tokenOf(namesake as typeof client))).body;
  expect(other.decision.allow).toBe(false);
  expect(recordOf(other).outcome.caller_attributes).toEqual({ clearance: 0, roles: ["porter"] });
  const refused = await ask(await tokenOf(weak as typeof client));
  expect([refused.status, refused.body.error.message]).toEqual([
    401,
    "the access token carries no valid attribute clearance",
  ]);
  const line = gateway.logged.find((candidate) => candidate.includes("SVC_SESSION_CLIENTS"));
  expect(JSON.parse(line ?? "{}")).toMatchObject({ level: "warn", attributes: ["shoe_size"] });
  expect(gateway.logged.join("\n")).not.toContain("a secret size");
  const wrong = { ...client, attributes: { clearance: "2" } };
  await expect(startSessionDeployment([wrong], env)).rejects.toThrow(
    "SVC_SESSION_CLIENTS: clients[0].attributes.clearance must be a whole number",
  );
});
