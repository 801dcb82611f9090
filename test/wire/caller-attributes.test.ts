/** Attributes of callers that the policy manifest declares: from credentials to decision, record and replay. */
import { beforeEach, expect, test } from "vitest";
import { reasonOnBoth } from "../harness/both-wires.ts";
import { folderForFile, writeFiles } from "../harness/folder.ts";
import { type Gateway, rest, startGateway, unpolled } from "../harness/gateway.ts";
import { h1Connect, h1Request } from "../harness/h1.ts";
import { h2Connect } from "../harness/h2.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { recordIn } from "../harness/ledger.ts";
import { forTest } from "../harness/lifetimes.ts";
import {
  askOf,
  sessionByRest,
  startSessionDeployment,
  type TestClient,
  testClient,
  tokenOf,
} from "../harness/sessions.ts";

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

const policies = folderForFile("caller-attributes");
let gateway: Gateway;

const issuer = await issuerForFile();
beforeEach(() => writeFiles(policies, files));

/** Settings under which the directory is looked at when a test says so. */
const settings = () => ({ SVC_POLICY_DIR: policies, SVC_OIDC_ISSUER: issuer.url });

async function start(env: Record<string, string> = {}): Promise<void> {
  gateway = await forTest(startGateway({ env: { ...settings(), ...env }, overrides: unpolled }));
}

const doctor = { clearance: 2, realm_access: { roles: ["nurse", "doctor", "nurse"] } };
const ask = async (token: string, headers = {}) =>
  await rest(`${gateway.url}/v1/sdk/protection-plan`, { token, body: plan, headers });

test("attributes of callers decide, are recorded, and are shown to the caller only", async () => {
  await start();
  const { body } = await ask(issuer.token(doctor));
  expect(body.decision).toMatchObject({ allow: true, reasons: ["platform/all", "tenant/doctors"] });
  expect(recordIn(body).outcome.caller_attributes).toEqual({ clearance: 2, roles: ["doctor", "nurse"] });
  expect(recordIn(body).caller).toEqual({
    ...{ principal_id: "payroll-service", subject: "client-1", auth_source: "bearer_token" },
  });
  const { record: _, ...receipt } = body.decision.receipt;
  const others = { ...body, decision: { ...body.decision, receipt } };
  expect(JSON.stringify(others)).not.toMatch(/doctor"|nurse/);

  const resolved = await rest(`${gateway.url}/v1/sdk/policy-resolve`, { token: issuer.token(doctor), body: plan });
  expect(resolved.body.decision.policy_inputs).toEqual(["caller.attributes.clearance", "caller.attributes.roles"]);
  const denied = await ask(issuer.token({ clearance: 1, realm_access: { roles: ["doctor"] } }));
  expect(denied.body.decision).toMatchObject({ allow: false, reasons: [] });
  const plain = await ask(issuer.token({ clearance: 9 }));
  expect(plain.body.decision.allow).toBe(false);
  expect(recordIn(plain.body).outcome.caller_attributes).toEqual({ clearance: 9 });

  const told = gateway.logged.join("\n") + (await (await fetch(`${gateway.opsUrl}/metrics`)).text());
  expect(told).not.toMatch(/nurse|clearance/);
});

test("required attributes that are missing, or of another type, refuse every call with their name", async () => {
  await start();
  const session = await h2Connect(gateway.url);
  for (const claims of [{}, { clearance: "secret-value" }]) {
    const token = issuer.token(claims);
    const { status, body, headers } = await rest(`${gateway.url}/v1/sdk/whoami`, { token });
    expect([status, body.error.reason]).toEqual([401, "invalid_token"]);
    expect(body.error.message).toBe("the access token carries no valid attribute clearance");
    expect(headers.get("www-authenticate")).toContain('error="invalid_token"');
    expect(await reasonOnBoth(gateway.url, session, [["authorization", `Bearer ${token}`]])).toBe("invalid_token");
  }
  expect(gateway.logged.join("\n")).not.toContain("secret-value");
  expect((await ask(issuer.token({ ...doctor, realm_access: { roles: "doctor" } }))).body.decision.allow).toBe(false);
});

test("attributes are never read from another claim: a reload that declares them reads tokens again", async () => {
  await start();
  const token = issuer.token({ clearance: 2, realm_access: { roles: ["doctor"] }, groups: ["porter"] });
  const body = JSON.stringify(plan);
  const head = h1Request("POST /v1/sdk/protection-plan", [
    `Authorization: Bearer ${token}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "Expect: 100-continue",
  ]);
  /** Asks; the caller is known by the time that the policies are replaced, and the question is not. */
  const askAround = async (replaced: Readonly<Record<string, string>>) => {
    const connection = await h1Connect(gateway.url);
    connection.write(head);
    expect(await connection.next()).toMatchObject({ status: 100 });
    writeFiles(policies, replaced);
    await gateway.app.reload();
    connection.write(body);
    const answer = await connection.next();
    connection.destroy();
    return { status: answer?.status, body: JSON.parse(answer?.text ?? "{}"), headers: answer?.headers };
  };
  const refused = await askAround({ "manifest.yaml": declaring.replace("realm_access.roles", "groups") });
  expect(refused).toMatchObject({ status: 503, body: { error: { reason: "policy_unavailable" } } });
  expect(refused.headers?.get("retry-after")).toBe("1");
  expect((await ask(token)).body.decision).toMatchObject({ allow: false, reasons: [] });
  // Other policies about the same attributes decide at once.
  const porters = files["default/doctors.cedar"].replace('"doctor"', '"porter"');
  const decided = await askAround({ "default/doctors.cedar": porters });
  expect(decided).toMatchObject({ status: 200, body: { decision: { allow: true } } });
});

test("attributes come from the headers of a trusted ingress, one for each", async () => {
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
  expect(recordIn(allowed.body).outcome.caller_attributes).toEqual({ clearance: 3, roles: ["doctor", "ward 7"] });
  expect((await through({ "remote-clearance": "3" })).body.decision.allow).toBe(false);
  const refused = await through({ "remote-clearance": "3, 4" });
  expect([refused.status, refused.body.error.reason]).toEqual([401, "invalid_token"]);
  const line = gateway.logged.find((candidate) => candidate.includes("SVC_ATTRIBUTE_HEADERS"));
  expect(JSON.parse(line ?? "{}")).toMatchObject({ level: "warn", attributes: ["role"] });
  // Beside a token the headers are ignored.
  const withToken = await ask(issuer.token({ clearance: 0 }), { ...identity, "remote-clearance": "3" });
  expect(recordIn(withToken.body).outcome.caller_attributes).toEqual({ clearance: 0 });
});

test("attributes of a session client come from the clients file", async () => {
  const attributes = { clearance: 2, roles: ["doctor"], shoe_size: "a secret size" };
  const client = testClient({ scopes: ["platform-api.access", "policy.read"], attributes });
  const weak = { ...client, clientId: "cleaner", attributes: { roles: ["doctor"] } };
  const { SVC_OIDC_ISSUER: _, ...env } = settings();
  // Another tenant's client of the same name has its own.
  const namesake = { ...client, tenantId: "tenant-b", attributes: { clearance: 0, roles: ["porter"] } };
  ({ gateway } = await forTest(startSessionDeployment([client, weak, namesake], env)));
  const open = async (of: TestClient) => tokenOf(await sessionByRest(gateway.url, askOf(of)));
  const { body } = await ask(await open(client));
  expect(body.decision.allow).toBe(true);
  expect(recordIn(body).outcome.caller_attributes).toEqual({ clearance: 2, roles: ["doctor"] });
  const other = (await ask(await open(namesake))).body;
  expect(other.decision.allow).toBe(false);
  expect(recordIn(other).outcome.caller_attributes).toEqual({ clearance: 0, roles: ["porter"] });
  const refused = await ask(await open(weak));
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
