/**
 * A key access service of OpenTDF in front, over the wire: stock clients, with message types built from OpenTDF's own
 * definitions (`fixtures/opentdf/upstream.binpb`, without their validation rules).
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createFileRegistry, type DescMethod, type DescService, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { folderForFile, writeFiles } from "../harness/folder.ts";
import { gatewayForFile, lockStore, rest } from "../harness/gateway.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { boundTo } from "../harness/proofs.ts";
import { claimsOf, type Members, mintToken, newTestKey } from "../harness/tokens.ts";
import { run, settingsForTest } from "../unit/cli/surroundings.ts";

const upstream = createFileRegistry(
  fromBinary(FileDescriptorSetSchema, readFileSync(join(import.meta.dirname, "../fixtures/opentdf/upstream.binpb"))),
);
const authorization = upstream.getService("authorization.v2.AuthorizationService") as DescService;

const policies = {
  "manifest.yaml": `platform: platform
tenants: { "*": default }
caller_attributes:
  team: { type: text, claim: team }
  groups: { type: set_of_text, claim: groups }
`,
  "platform/all.cedar": `@id("own") permit (principal, action, resource);
@id("others") permit (principal, action, resource) when { context has on_behalf_of && context.on_behalf_of.type == "principal" };\n`,
  "default/files.cedar": `@id("own") permit (principal, action, resource);
@id("readers") permit (principal, action == Action::"unwrap", resource)
when { context has on_behalf_of && context.on_behalf_of.type == "principal" }
when { context.on_behalf_of.property_values.contains("team=readers") };
@id("drafts") @obligation("drm.watermark") permit (principal, action == Action::"unwrap", resource)
when { context has on_behalf_of && context.on_behalf_of.type == "principal" }
when { context.claimed.labels.contains("draft") };
@id("traced") @obligation("trace; days = 30") permit (principal, action == Action::"unwrap", resource)
when { context has on_behalf_of && context.on_behalf_of.type == "principal" }
when { context.claimed.labels.contains("traced") };
@id("noted") @obligation("note") permit (principal, action == Action::"unwrap", resource)
when { context has on_behalf_of && context.on_behalf_of.type == "principal" }
when { context.claimed.labels.contains("noted") };
@id("embargo") forbid (principal, action, resource)
when { context has registered && context.registered.labels.contains("embargo") };
@id("secrets") forbid (principal, action, resource)
when { context.claimed.labels.contains("https://example.com/attr/class/value/secret") };\n`,
};

// biome-ignore lint/suspicious/noExplicitAny: answers of types that are known only at run time.
type Any = any;
const workload = { application: "payroll" };
const attribute = (name: string, value: string, namespace = "example.com") =>
  `https://${namespace}/attr/${name}/value/${value}`;
const obligation = (name: string, value: string) => `https://example.com/obl/${name}/value/${value}`;

const folder = folderForFile("opentdf");
writeFiles(folder, policies);
const issuer = await issuerForFile();
const gateway = await gatewayForFile({
  env: { SVC_OPENTDF: "on", SVC_OIDC_ISSUER: issuer.url, SVC_POLICY_DIR: folder, SVC_LEDGER_ORIGIN: "localhost/kas" },
});

const scope = "platform-api.access policy.read keys.use artifacts.write";
const kas = (claims: Members = {}) =>
  issuer.token({ principal_id: "kas", scope: `${scope} decisions.delegate`, ...claims });
const reader = (claims: Members = {}) =>
  issuer.token({ principal_id: "reader-1", sub: "ann", scope: "openid", team: "readers", ...claims });

const wires = {
  "Connect, protobuf": () => createConnectTransport({ ...base(), httpVersion: "1.1", useBinaryFormat: true }),
  "Connect, JSON": () => createConnectTransport({ ...base(), httpVersion: "1.1" }),
  gRPC: () => createGrpcTransport(base()),
};
let bearer = "";
function base() {
  const authenticate: Interceptor = (next) => (request) => {
    if (bearer !== "") request.header.set("authorization", `Bearer ${bearer}`);
    return next(request);
  };
  return { baseUrl: gateway.url, interceptors: [authenticate] };
}

interface Asking {
  readonly token?: string;
  readonly caller?: string;
  readonly action?: string;
  readonly fulfillable?: readonly string[];
  readonly wire?: keyof typeof wires;
}

async function call(method: string, message: object, { caller = kas(), wire = "Connect, protobuf" }: Asking = {}) {
  bearer = caller;
  return (createClient(authorization, wires[wire]()) as Any)[method](message);
}
const entity = (jwt: string) => ({
  identifier: { case: "token", value: { ephemeralId: "rewrap-token", jwt } },
});
const resource = (fqns: readonly string[], ephemeralId = "rewrap-0") => ({
  ephemeralId,
  resource: { case: "attributeValues", value: { fqns } },
});
const question = ({ token = reader(), action = "read", fulfillable = [] }: Asking = {}) => ({
  entityIdentifier: entity(token),
  action: { name: action },
  fulfillableObligationFqns: fulfillable,
});
const ask = async (fqns: readonly string[], asking: Asking = {}): Promise<Any> =>
  (await call("getDecision", { ...question(asking), resource: resource(fqns) }, asking)).decision;

async function refusalOf(asked: Promise<unknown>): Promise<{ code: Code; reason: string; text: string }> {
  const error = await asked.then(
    (answer) => expect.fail(JSON.stringify(answer)),
    (thrown: unknown) => ConnectError.from(thrown),
  );
  const [info] = error.findDetails(ErrorInfoSchema);
  return { code: error.code, reason: info?.reason.toLowerCase() ?? "", text: JSON.stringify(error) + error.message };
}

/** The recorded questions about a user. */
async function recordsAbout(principal: string): Promise<Any[]> {
  settingsForTest({ SVC_STORE: `sqlite:${join(gateway.dataDir, "platform.db")}` });
  const about = ["--tenant", "tenant-a", "--on-behalf-of", `principal/${principal}`];
  const written = await run("ledger", "search", ...about, "--records", "--json");
  return JSON.parse(written.out).found.map(({ record }: Any) => record);
}

/** Registers an artifact about the resource, as the principal. */
async function register(resource: object, members: object, by = "owner"): Promise<Any> {
  const body = { operation: "protect", workload, resource, artifact_profile: "tdf", ...members };
  const token = kas({ principal_id: by });
  return (await rest(`${gateway.url}/v1/sdk/artifact-register`, { token, body })).body.registration;
}

let made = 0;
/** Protects a file as the library does, and returns the attributes of its policy. */
async function protectedFile(labels: readonly string[], registered = labels, by = "owner", known?: string) {
  const about = { workload, resource: { kind: "customer-record", id: `cust-${++made}` } };
  const token = kas({ principal_id: by });
  const plan = await rest(`${gateway.url}/v1/sdk/protection-plan`, {
    token,
    body: { operation: "protect", ...about, labels, preferred_artifact_profile: "tdf" },
  });
  const { decision_id } = plan.body.decision;
  const artifact_digest = known ?? `sha256:${String(made).padStart(64, "0")}`;
  const members = { labels: registered, decision_id, artifact_digest, artifact_kind: "tdf_manifest" };
  expect((await register(about.resource, members, by)).accepted).toBe(true);
  const fqns = [attribute("decision", decision_id), ...labels.map((label) => attribute("label", label))];
  return { fqns, decision_id, artifact_digest, ...about };
}

describe.each(Object.keys(wires) as (keyof typeof wires)[])("%s", (wire) => {
  test("answers several resources one by one", async () => {
    const [plain, embargoed] = [await protectedFile(["plain"]), await protectedFile(["plain"], ["embargo"])];
    const secret = [attribute("class", "secret")];
    const resources = [plain.fqns, embargoed.fqns, secret].map((fqns, i) => resource(fqns, `rewrap-${i}`));
    const answer = await call("getDecisionMultiResource", { ...question(), resources }, { wire });
    expect(answer.allPermitted).toBe(false);
    expect(answer.resourceDecisions).toMatchObject([
      { ephemeralResourceId: "rewrap-0", decision: 2 },
      { ephemeralResourceId: "rewrap-1", decision: 1 },
      { ephemeralResourceId: "rewrap-2", decision: 1 },
    ]);
    const all = await call("getDecisionMultiResource", { ...question(), resources: resources.slice(0, 1) }, { wire });
    expect(all.allPermitted).toBe(true);
  });

  test("names an obligation, and withholds the key until the reader can fulfil it", async () => {
    const { fqns } = await protectedFile(["draft"]);
    const token = reader({ team: "writers" });
    const name = obligation("drm", "watermark");
    const denied = { decision: 1, requiredObligations: [name] };
    expect(await ask(fqns, { wire, token })).toMatchObject(denied);
    const others = [obligation("drm", "expiry"), name.replace("example.com", "example.org")];
    expect(await ask(fqns, { wire, token, fulfillable: others })).toMatchObject(denied);
    const fulfillable = [name.toUpperCase().replace("HTTPS", "https"), ...others];
    expect(await ask(fqns, { wire, token, fulfillable })).toMatchObject({ ...denied, decision: 2 });
  });

  test("refuses a question that cannot be decided", async () => {
    const fqns = [attribute("label", "plain")];
    const caller = { wire };
    const asked = { ...question(), resource: resource(fqns) };
    for (const [message, code] of [
      [{ ...asked, entityIdentifier: undefined }, Code.InvalidArgument],
      [{ ...asked, entityIdentifier: { identifier: { case: "entityChain", value: {} } } }, Code.Unimplemented],
      [
        { ...asked, entityIdentifier: { identifier: { case: "registeredResourceValueFqn", value: "https://a.b" } } },
        Code.Unimplemented,
      ],
      [
        { ...asked, resource: { resource: { case: "registeredResourceValueFqn", value: "https://a.b" } } },
        Code.Unimplemented,
      ],
      [{ ...asked, resource: {} }, Code.InvalidArgument],
      [{ ...asked, resource: undefined }, Code.InvalidArgument],
      [{ ...asked, resource: resource([]) }, Code.InvalidArgument],
      [{ ...asked, action: { name: "levitate" } }, Code.InvalidArgument],
      [{ ...asked, action: {} }, Code.InvalidArgument],
    ] as const) {
      const refusal = await refusalOf(call("getDecision", message, caller));
      expect([JSON.stringify(message).slice(0, 200), refusal.code]).toEqual([expect.any(String), code]);
    }
    for (const method of ["getDecisionBulk", "getEntitlements"])
      expect((await refusalOf(call(method, {}, caller))).code).toBe(Code.Unimplemented);
  });
});

interface Recorded {
  readonly name: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
/**
 * What a stock key access service asked (opentdf/platform at 053f7e5d, mode `kas`) when readers requested keys from it.
 * It gave the key for `permit`, `obligation met` and the first of `several`, and for no other. Tokens and decisions were
 * taken out.
 */
const asked: readonly Recorded[] = JSON.parse(
  readFileSync(join(import.meta.dirname, "../fixtures/opentdf/kas-requests.json"), "utf8"),
);
const watermark = { requiredObligations: [obligation("drm", "watermark")] };
test.each([
  ["permit", ["plain"], [{ decision: 2 }]],
  ["deny", ["embargoed"], [{ decision: 1 }]],
  ["deny another reader", ["plain"], [{ decision: 1 }]],
  ["obligation unmet", ["draft"], [{ decision: 1, ...watermark }]],
  ["obligation met", ["draft"], [{ decision: 2, ...watermark }]],
  ["several", ["plain", "embargoed", "draft"], [{ decision: 2 }, { decision: 1 }, { decision: 1, ...watermark }]],
] as const)("answers the recorded request of a real service, %s", async (name, files, decisions) => {
  const recorded = asked.find((one) => one.name === name) as Recorded;
  const method = authorization.methods.find((one) => recorded.path.endsWith(`/${one.name}`)) as DescMethod;
  const message = fromBinary(method.input, Buffer.from(recorded.body, "base64")) as Any;
  message.entityIdentifier.identifier.value.jwt = reader(name === "deny another reader" ? { team: "writers" } : {});
  for (const [i, { resource: named }] of (message.resources ?? [message.resource]).entries()) {
    const kind = files[i] === "embargoed" ? "plain" : (files[i] as string);
    const { fqns } = await protectedFile([kind], files[i] === "embargoed" ? ["embargo"] : [kind]);
    expect(named.value.fqns.slice(1)).toEqual(fqns.slice(1));
    named.value.fqns = fqns;
  }
  const response = await fetch(gateway.url + recorded.path, {
    method: "POST",
    headers: { ...recorded.headers, authorization: `Bearer ${kas()}` },
    body: toBinary(method.input, message),
  });
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "application/proto"]);
  const answer = fromBinary(method.output, new Uint8Array(await response.arrayBuffer())) as Any;
  expect(answer.resourceDecisions ?? [answer.decision]).toMatchObject(decisions);
});

test("answers a real service's first request without credentials", async () => {
  const recorded = asked[0] as Recorded;
  const response = await fetch(gateway.url + recorded.path, { method: "POST", headers: recorded.headers });
  expect([recorded.name, response.status]).toEqual(["start", 200]);
});

test("records each question, with the user as subject and the registered facts of the file", async () => {
  const file = await protectedFile(["plain"], ["plain", "kept"]);
  const own = [...file.fqns, attribute("Region", "EU"), attribute("label", "other", "example.org")];
  const token = reader({ principal_id: "reader-2" });
  const resources = [resource(own), resource(["https://x.y/z"])];
  await call("getDecisionMultiResource", { ...question({ token }), resources });
  const [known, foreign] = await recordsAbout("reader-2");
  expect(known).toMatchObject({
    kind: "decision",
    route: "/access/v1/evaluation",
    caller: { principal_id: "kas" },
    request: {
      operation: "unwrap",
      workload: { application: "kas" },
      resource: file.resource,
      artifact_digest: file.artifact_digest,
      artifact_profile: "tdf",
      labels: ["plain", attribute("region", "eu"), attribute("label", "other", "example.org")],
      on_behalf_of: { type: "principal", id: "reader-2", properties: { subject: "ann", team: "readers" } },
    },
    outcome: { allow: true, reasons: expect.arrayContaining(["tenant/readers"]) },
  });
  expect(known.outcome.registered).toHaveLength(1);
  expect(foreign.request).toMatchObject({ resource: { kind: "tdf" }, labels: ["https://x.y/z"] });
  expect(foreign.request.resource.id).toBeUndefined();
  expect(foreign.request.artifact_digest).toBeUndefined();
});

test("uses later registrations of the same file, and ignores a decision of another tenant", async () => {
  const file = await protectedFile(["plain"]);
  expect(await ask(file.fqns)).toMatchObject({ decision: 2 });
  const { artifact_digest, decision_id } = file;
  const relabelled = await register(file.resource, { labels: ["embargo"], artifact_digest, decision_id });
  expect(relabelled.accepted).toBe(true);
  expect(await ask(file.fqns)).toMatchObject({ decision: 1 });
  const elsewhere = { caller: kas({ tenant_id: "tenant-b" }), token: reader({ tenant_id: "tenant-b" }) };
  expect(await ask(file.fqns, elsewhere)).toMatchObject({ decision: 2 });
});

test("refuses a user with too many values in an attribute, and names the attribute's place", async () => {
  const asked = (count: number, group: string) => {
    const groups = Array.from({ length: count }, (_, i) => `${group}${i}`);
    return ask([attribute("label", "plain")], { token: reader({ groups }) });
  };
  expect(await asked(100, "grou")).toMatchObject({ decision: 2 });
  const place = "entity_identifier.token.attributes";
  for (const [refused, message] of [
    [asked(101, "group-"), `${place}[2].value: must be at most 1024 characters`],
    [asked(257, ""), `${place}: must have at most 256 values`],
  ] as const) {
    const refusal = await refusalOf(refused);
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "invalid_request" });
    expect(refusal.text).toContain(message);
  }
});

test("applies the facts of the first decision to a file that names a second one", async () => {
  const [file, second] = [await protectedFile(["plain"], ["embargo"]), await protectedFile(["plain"])];
  const refusal = await refusalOf(ask([...file.fqns, ...second.fqns]));
  expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "invalid_request" });
  expect(refusal.text).toContain("resource.attribute_values.fqns");
  const [named = ""] = file.fqns;
  for (const same of [named, named.toUpperCase().replace("HTTPS", "https")])
    expect(await ask([...file.fqns, same])).toMatchObject({ decision: 1 });
  // Another organisation's attribute of that name.
  for (const fqns of [[attribute("decision", "approved", "example.org")], [attribute("decision", "approved")]])
    for (const all of [
      [...file.fqns, ...fqns],
      [...fqns, ...file.fqns],
    ])
      expect(await ask(all)).toMatchObject({ decision: 1 });
});

test("refuses a file whose decision has a second artifact, whose facts may be others", async () => {
  const file = await protectedFile(["plain"], ["embargo"]);
  const others = Array.from({ length: 17 }, (_, i) => `sha256:${String(i).padStart(64, "e")}`);
  // Beyond 16 artifacts, none of them is known.
  for (const digests of [others.slice(0, 1), others.slice(1)]) {
    for (const artifact_digest of digests)
      await register(file.resource, { labels: ["plain"], artifact_digest, decision_id: file.decision_id });
    const refusal = await refusalOf(ask(file.fqns));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "invalid_request" });
    expect(refusal.text).toContain("resource.attribute_values.fqns");
  }
  // Without the scopes of the action, nothing is looked up.
  const caller = kas({ scope: "platform-api.access keys.use decisions.delegate" });
  expect(await refusalOf(ask(file.fqns, { caller, action: "protect" }))).toMatchObject({ reason: "missing_scope" });
});

test("a registration of another principal's artifact does not lead its decision to that artifact", async () => {
  const { artifact_digest } = await protectedFile(["plain"]);
  const { fqns } = await protectedFile(["plain"], ["plain"], "stranger", artifact_digest);
  await ask(fqns, { token: reader({ principal_id: "reader-3" }) });
  const [{ request } = {} as Any] = await recordsAbout("reader-3");
  expect(request.resource).toEqual({ kind: "tdf" });
  expect(request.artifact_digest).toBeUndefined();
});

test("does not use a stranger's registration for the artifact of a decision", async () => {
  const file = await protectedFile(["plain"], ["embargo"]);
  for (const more of [
    { decision_id: file.decision_id, artifact_digest: `sha256:${"f".repeat(64)}` },
    { artifact_digest: `decision:${file.decision_id}` },
  ])
    await register(file.resource, more, "stranger");
  expect(await ask(file.fqns)).toMatchObject({ decision: 1 });
});

test("never fulfils obligations without a name, or with parameters", async () => {
  const token = reader({ team: "writers" });
  const traced = await protectedFile(["traced"]);
  const fulfillable = [obligation("trace", "required"), obligation("note", "required")];
  expect(await ask(traced.fqns, { token, fulfillable })).toMatchObject({ decision: 1, requiredObligations: [] });
  const noted = await protectedFile(["noted"]);
  expect(await ask(noted.fqns, { token })).toMatchObject({ decision: 1, requiredObligations: fulfillable.slice(1) });
  expect(await ask(noted.fqns, { token, fulfillable })).toMatchObject({ decision: 2 });
});

test("needs a valid user token of the same tenant, without proof of possession", async () => {
  const fqns = [attribute("label", "plain")];
  const bound = reader({ cnf: await boundTo(newTestKey("ES256", "dpop")) });
  expect(await ask(fqns, { token: bound })).toMatchObject({ decision: 2 });
  const past = Math.floor(Date.now() / 1000) - 600;
  for (const token of [
    reader({ aud: "api://other" }),
    reader({ iss: "http://127.0.0.1:9/other" }),
    reader({ exp: past }),
    reader({ tenant_id: "tenant-b" }),
    reader({ cnf: {} }),
    reader().slice(0, -4),
    "secret-that-is-no-token",
    mintToken(newTestKey("ES256", "key-1"), claimsOf(issuer.url, Date.now(), { principal_id: "reader-1" })),
  ]) {
    const refusal = await refusalOf(ask(fqns, { token }));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "invalid_request" });
    expect(refusal.text).not.toContain(token);
  }
});

test("needs credentials of the caller, the scopes of key access, and the scope to ask about others", async () => {
  const fqns = [attribute("label", "plain")];
  const refused = (caller: string) => refusalOf(ask(fqns, { caller }));
  expect(await refused("")).toMatchObject({ code: Code.Unauthenticated, reason: "missing_token" });
  for (const given of [scope, "platform-api.access decisions.delegate"])
    expect(await refused(kas({ scope: given }))).toMatchObject({
      code: Code.PermissionDenied,
      reason: "missing_scope",
    });
});

test("decides nothing while the store is down", async () => {
  const { fqns } = await protectedFile(["plain"]);
  {
    using _ = lockStore(gateway);
    expect(await refusalOf(ask(fqns))).toMatchObject({ code: Code.Unavailable, reason: "store_unavailable" });
  }
  await expect.poll(() => ask(fqns)).toMatchObject({ decision: 2 });
});

test("logs no tokens or attributes", async () => {
  const token = reader();
  const caller = kas();
  const secret = "value-4d1f0c";
  await ask([attribute("label", secret)], { token, caller });
  await ask([attribute("label", secret), "x".repeat(300)], { token, caller }).catch(() => undefined);
  await ask([attribute("label", secret)], { token: `${token}x`, caller }).catch(() => undefined);
  const log = gateway.logged.join("\n");
  for (const text of [token, caller, secret, "x".repeat(300)]) expect(log).not.toContain(text);
});
