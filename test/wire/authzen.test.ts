/** Enforcement points over the wire, in the terms of AuthZEN 1.0: the scenario of its certification, and what is refused. */
import { describe, expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { authzenMetadata } from "../../src/app/further-apis.ts";
import { gateways, todos } from "../fixtures/authzen-pairs.ts";
import { authzenPolicies, ordinaryScopes, record, startAuthzen, user } from "../harness/authzen.ts";
import { wireClients } from "../harness/clients.ts";
import { metricSum, type RestAnswer, rest, startGateway } from "../harness/gateway.ts";
import { recordIn } from "../harness/ledger.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { freePort } from "../harness/loopback.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { askOf, sessionByRest, startSessionDeployment, testClient } from "../harness/sessions.ts";

const delegating = { scope: "platform-api.access policy.read keys.use decisions.delegate" };
const searches = ["subject", "resource", "action"].map((searched) => `/access/v1/search/${searched}`);
const paths = ["/access/v1/evaluation", "/access/v1/evaluations", ...searches];
const metadata = "/.well-known/authzen-configuration";

type Any = RestAnswer["body"];

const ordinary = { scope: ordinaryScopes.join(" ") };

const gateway = await forFile(startAuthzen());
const token = await gateway.token(delegating);

const action = (name: string, properties?: object) => ({ name, ...(properties && { properties }) });
const readsAlice = { subject: user("alice"), action: action("read"), resource: record("record-1") };

/** A question, or a search, for a route. */
function bodyFor(path: string): object {
  const candidates = { context: { candidates: [{ id: "alice" }, { id: "bob" }] } };
  if (path.endsWith("subject")) return { ...readsAlice, ...candidates, subject: { type: "user" } };
  if (path.endsWith("resource")) return { ...readsAlice, ...candidates, resource: { type: "record" } };
  const { action: _, ...both } = readsAlice;
  return path.endsWith("action") ? both : readsAlice;
}

const ask = (body: object | string, options: object = {}): Promise<RestAnswer> =>
  rest(`${gateway.url}/access/v1/evaluation`, { token, body, ...options });
const askMany = (body: object): Promise<RestAnswer> => rest(`${gateway.url}/access/v1/evaluations`, { token, body });

test("metadata names the served endpoints, under the configured address only", async () => {
  expect(authzenMetadata("https://pdp.example.com/")).toEqual({
    policy_decision_point: "https://pdp.example.com",
    access_evaluation_endpoint: "https://pdp.example.com/access/v1/evaluation",
    access_evaluations_endpoint: "https://pdp.example.com/access/v1/evaluations",
    search_subject_endpoint: "https://pdp.example.com/access/v1/search/subject",
    search_resource_endpoint: "https://pdp.example.com/access/v1/search/resource",
    search_action_endpoint: "https://pdp.example.com/access/v1/search/action",
  });
  const port = await freePort();
  const env = { SVC_POLICY_DIR: authzenPolicies, SVC_AUTHZEN: "on", SVC_PUBLIC_URL: "https://pdp.example.com" };
  await forTest(startGateway({ port, env }));
  const answer = await fetch(`http://127.0.0.1:${port}${metadata}`);
  expect(answer.headers.get("content-type")).toContain("application/json");
  expect(await answer.json()).toEqual(authzenMetadata("https://pdp.example.com"));
  // Without an address nothing is guessed from what a request says.
  expect((await fetch(gateway.url + metadata)).status).toBe(404);
  const document = await (await fetch(`${gateway.url}/openapi-authzen.json`)).json();
  expect(Object.keys((document as Any).paths)).toEqual(paths);
});

const archived = { action: action("write"), resource: record("record-2", { status: "archived" }) };
const roles = ["clerk", "admin"];

test.each([
  ["1", {}, true],
  ["2", { action: action("write") }, true],
  ["3", { subject: user("bob") }, true],
  ["4", { subject: user("bob"), action: action("write") }, false],
  ["5", archived, false],
  ["6", { ...archived, subject: user("bob", { role: "admin" }) }, true],
  ["6, of several roles", { ...archived, subject: user("bob", { role: roles }) }, true],
  ["7", { action: action("delete", { soft: true }) }, true],
  ["8", { action: action("delete", { soft: false }) }, false],
  ["with context", { context: { time: "2025-06-27T18:03-07:00", ip: "192.168.1.1" } }, true],
  ["with more members", { foo: 1, subject: { ...user("alice", { a: [1, { b: null }] }), bar: {} } }, true],
  ["an unknown subject", { subject: user("carol") }, false],
])("rule %s of the certification scenario", async (_name, change, decision) => {
  const answer = await ask({ ...readsAlice, ...change }, { headers: { "x-request-id": "the-callers-own" } });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("x-request-id")).toBe("the-callers-own");
  expect(answer.body).toMatchObject({ decision, context: { policy_revision: expect.stringContaining("sha256:") } });
  expect(Object.keys(answer.body)).toEqual(["decision", "context"]);
});

test("the record has both identities, the question, and its mapping", async () => {
  const { body } = await ask({
    subject: user("alice", { department: "finance", groups: ["a", "b"], level: 3, manager: { id: "x" } }),
    action: action("read"),
    resource: record("record-1", {
      labels: ["restricted"],
      owner: "bob",
      mime_type: "text/plain",
      content_size_bytes: 7,
    }),
    context: { workload: { application: "file-server", environment: "production" }, purpose: "preview", ip: "::1" },
  });
  expect(recordIn(body)).toMatchObject({
    kind: "decision",
    record_id: body.context.decision_id,
    route: "/access/v1/evaluation",
    caller: { principal_id: expect.any(String), auth_source: "bearer_token" },
    request: {
      operation: "access",
      requested_action: "read",
      workload: { application: "file-server", environment: "production" },
      resource: { kind: "record", id: "record-1", mime_type: "text/plain" },
      purpose: "preview",
      labels: ["restricted"],
      attributes: { owner: "bob", "action.name": "read" },
      content_size_bytes: 7,
      on_behalf_of: {
        type: "user",
        id: "alice",
        properties: { department: "finance", groups: '["a","b"]', level: "3", manager: '{"id":"x"}' },
        property_values: ["department=finance", "groups=a", "groups=b", "level=3", 'manager={"id":"x"}'],
      },
    },
    outcome: { allow: true, reasons: ["platform/enforcement-points", "tenant/records-are-read"] },
  });
});

test("the order of an object's members makes no other question", async () => {
  const requests = ['{"to":{"x":1,"y":[2]},"by":"a"}', '{"by":"a","to":{"y":[2],"x":1}}'].map(async (place) => {
    const properties = { place: JSON.parse(place) as object, places: [JSON.parse(place) as object] };
    const about = { subject: user("alice", properties), resource: record("record-1", properties) };
    return recordIn((await ask({ ...readsAlice, ...about, action: action("read", properties) })).body).request;
  });
  const [one, other] = await Promise.all(requests);
  expect(other).toEqual(one);
});

test("a permitted question is counted as a decision, and not as one that an event should follow", async () => {
  const counts = async () => [
    await metricSum(gateway, /^svc_tenant_decisions_total\{tenant="tenant-a",allow="true"/),
    await metricSum(gateway, /^svc_tenant_evidence_total\{tenant="tenant-a",state="expected"\}/),
  ];
  const [decided = 0, awaited] = await counts();
  for (const subject of [user("alice"), { type: "principal", id: defaultClient().principalId }])
    expect((await ask({ ...readsAlice, subject })).body.decision).toBe(true);
  expect(await counts()).toEqual([decided + 2, awaited]);
});

test("an enforcement point may ask about itself without a further scope, by its own rights", async () => {
  const own = await gateway.token(ordinary);
  const { body: who } = await rest(`${gateway.url}/v1/sdk/whoami`, { token: own });
  const self = { ...readsAlice, subject: { type: "principal", id: who.caller.principal_id } };
  const { status, body } = await ask(self, { token: own });
  expect([status, body.decision]).toEqual([200, true]);
  expect(recordIn(body).request).not.toHaveProperty("on_behalf_of");
  expect(recordIn(body).outcome.reasons).toEqual(["platform/operations", "tenant/ordinary-work"]);
  // A user who is called as the enforcement point is, and one whose name looks alike, are other subjects.
  for (const subject of [
    user(who.caller.principal_id),
    { type: "principal", id: `${who.caller.principal_id}\u200b` },
  ]) {
    const refused = await ask({ ...self, subject }, { token: own });
    expect([refused.status, refused.body.error.missing_scopes]).toEqual([403, ["decisions.delegate"]]);
    const asked = await ask({ ...self, subject });
    expect([asked.status, asked.body.decision]).toEqual([200, false]);
  }
});

test("no subject is asked about without the scope, whatever else the caller may do", async () => {
  const without = await gateway.token({ scope: "platform-api.access policy.read keys.use artifacts.write" });
  for (const [path, body] of [
    ["/access/v1/evaluation", readsAlice],
    ["/access/v1/evaluations", { evaluations: [readsAlice] }],
    ...searches.map((path) => [path, bodyFor(path)] as const),
  ] as const) {
    const { status, body: answer, headers } = await rest(gateway.url + path, { token: without, body });
    expect([status, answer.error.reason]).toEqual([403, "missing_scope"]);
    expect(answer.error.missing_scopes).toEqual(["decisions.delegate"]);
    expect(headers.get("www-authenticate")).toContain("insufficient_scope");
  }
  const plain = await gateway.token({ scope: "platform-api.access policy.read decisions.delegate" });
  const keys = await ask({ ...readsAlice, action: action("unwrap") }, { token: plain });
  expect([keys.status, keys.body.error.missing_scopes]).toEqual([403, ["keys.use"]]);
  const nothing = await ask(readsAlice, { token: undefined });
  expect([nothing.status, nothing.body.error.reason]).toEqual([401, "missing_token"]);
});

test("claimed properties never become attributes of the caller", async () => {
  const properties = {
    principal_id: "admin",
    scopes: ["all"],
    tenant: "x",
    tenant_id: "tenant-b",
    on_behalf_of: { id: "alice" },
    id: "alice",
  };
  const { body } = await ask({
    ...readsAlice,
    subject: user("mallory", properties),
    context: { tenant_id: "tenant-b" },
  });
  expect(body.decision).toBe(false);
  const { caller, request } = recordIn(body);
  expect(caller.principal_id).not.toBe("admin");
  expect(request.on_behalf_of.id).toBe("mallory");
  expect(recordIn(body).tenant_id).toBe("tenant-a");
});

const text = JSON.stringify(readsAlice);

test.each<readonly [string, object | string, string]>([
  ["nothing", { subject: undefined, action: undefined, resource: undefined }, "subject action resource"],
  ["no id", { subject: { type: "user" } }, "subject.id"],
  ["an empty type", { resource: { type: "", id: "a" } }, "resource.type"],
  ["an unknown action", { action: action("fly") }, "action.name"],
  ["an action of JavaScript's", { action: action("constructor") }, "action.name"],
  ["an id that is not in NFC", { subject: user("e\u0301ve") }, "subject.id"],
  ["huge properties", { subject: user("alice", { a: "b".repeat(1025) }) }, "subject.properties[0].value"],
  [
    "many properties",
    { subject: user("alice", Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`p${i}`, i]))) },
    "subject.properties",
  ],
  ["a property with =", { subject: user("alice", { "role=x": "y" }) }, "subject.properties[0].key"],
  [
    "an attribute for the action's name",
    { resource: record("a", { "action.name": "x" }) },
    "resource.properties[0].key",
  ],
  ["labels that are no list", { resource: record("a", { labels: "x" }) }, "resource.properties.labels"],
  ["a digest that is none", { resource: record("a", { artifact_digest: "x" }) }, "resource.properties.artifact_digest"],
  [
    "a key under another name",
    { resource: record("a", { key_reference: "KMS://a" }) },
    "resource.properties.key_reference",
  ],
  ["a number that is lost", text.replace("}", ',"properties":{"n":9007199254740993}}'), "subject.properties[0].value"],
  ["a member twice", text.replace("}", ',"id":"bob"}'), "subject.id"],
  ["__proto__", text.replace("}", ',"properties":{"__proto__":{"role":"admin"}}}'), "subject.properties[0].key"],
])("%s is refused", async (_name, change, fields) => {
  const { status, body: answer } = await ask(typeof change === "string" ? change : { ...readsAlice, ...change });
  expect([status, answer.error?.reason]).toEqual([400, "invalid_request"]);
  expect(answer.error.violations.map(({ field }: Any) => field).join(" ")).toBe(fields);
});

test("limits count characters, as on the other routes", async () => {
  const wide = (characters: number) => "\u{1f512}".repeat(characters);
  const labels = [wide(256)];
  const resource = record("record-1", { labels, [wide(128)]: wide(1024) });
  expect((await ask({ ...readsAlice, resource })).body.decision).toBe(true);
  const resolve = { operation: "access", workload: { application: "a" }, resource: { kind: "record" }, labels };
  expect((await rest(`${gateway.url}/v1/sdk/policy-resolve`, { token, body: resolve })).status).toBe(200);
  const candidates = [{ id: wide(256) }];
  const search = { ...readsAlice, subject: { type: "user" }, context: { candidates } };
  expect((await rest(`${gateway.url}/access/v1/search/subject`, { token, body: search })).status).toBe(200);
});

test.each(Object.entries({ todos, gateways }))("%s: every pair is decided as stated", async (_name, pairs) => {
  for (const { request, expected } of pairs.evaluation) {
    const { body } = await ask(request);
    expect({ request, decision: body.decision }).toEqual({ request, decision: expected });
  }
  for (const { request, expected } of pairs.evaluations) {
    const { body } = await askMany(request);
    const decisions = body.evaluations?.map(({ decision }: Any) => ({ decision }));
    expect({ request, decisions }).toEqual({ request, decisions: expected });
  }
});

test("a session token cannot ask about another subject, whatever its scopes", async () => {
  const client = testClient({ clientId: "viewer", scopes: delegating.scope.split(" ") });
  const env = { SVC_POLICY_DIR: authzenPolicies, SVC_AUTHZEN: "on" };
  const { gateway: sessions } = await forTest(startSessionDeployment([client], env));
  const { token: session } = (await sessionByRest(sessions.url, askOf(client))) as Any;
  const asked = { token: session, body: readsAlice };
  const { status, body } = await rest(`${sessions.url}/access/v1/evaluation`, asked);
  expect([status, body.error.reason, body.error.missing_scopes]).toEqual([
    403,
    "missing_scope",
    ["decisions.delegate"],
  ]);
  const self = { ...readsAlice, subject: { type: "principal", id: "viewer" } };
  const own = await rest(`${sessions.url}/access/v1/evaluation`, { token: session, body: self });
  expect([own.status, own.body.decision]).toEqual([200, true]);
});

describe("several questions", () => {
  const bobWrites = { ...readsAlice, subject: user("bob"), action: action("write") };
  const decisions = ({ body }: RestAnswer) => body.evaluations.map(({ decision }: Any) => decision);

  test.each([
    ["execute_all", [true, false, true]],
    ["deny_on_first_deny", [true, false]],
    ["permit_on_first_permit", [true]],
  ])("%s", async (semantic, expected) => {
    const answer = await askMany({
      evaluations: [readsAlice, bobWrites, readsAlice],
      options: { evaluations_semantic: semantic, another_option: "value" },
    });
    expect(decisions(answer)).toEqual(expected);
    const ids = answer.body.evaluations.map(({ context }: Any) => context.decision_id);
    expect(new Set(ids).size).toBe(expected.length);
  });

  test("many denials are a spike of the subject that they are about, not of the enforcement point", async () => {
    const spikes = () => gateway.logged.filter((line) => line.includes("denials_spiked"));
    const askFor = (nameOf: (n: number) => string) =>
      askMany({ ...bobWrites, evaluations: Array.from({ length: 45 }, (_, n) => ({ subject: user(nameOf(n)) })) });
    const before = spikes().length;
    await askFor((n) => `stranger-${n}`);
    expect(spikes()).toHaveLength(before);
    await askFor(() => "stranger");
    expect(JSON.parse(spikes()[before] ?? "{}")).toMatchObject({ kind: "subject", denials: 20, tenant_id: "tenant-a" });
    expect(spikes().join()).not.toContain("stranger");
  });

  test("members that an evaluation leaves out are the request's; an empty default counts as none", async () => {
    const { subject, resource } = readsAlice;
    const answer = await askMany({
      subject,
      resource: {},
      context: {},
      evaluations: [
        { action: action("read"), resource },
        { action: action("write"), resource: record("record-2", { status: "archived" }) },
        { action: action("write"), resource, subject: user("bob") },
      ],
    });
    expect(decisions(answer)).toEqual([true, false, false]);
  });

  test("without evaluations, the request is the question", async () => {
    for (const more of [{}, { evaluations: [] }]) {
      const { body } = await askMany({ ...readsAlice, ...more });
      expect(body).toMatchObject({ decision: true, context: { reasons: expect.any(Array) } });
    }
  });

  test.each([
    ["one that lacks something", { evaluations: [readsAlice, { action: action("read") }] }, "evaluations[1].subject"],
    [
      "one with an unknown action",
      { ...readsAlice, evaluations: [{}, { action: action("fly") }] },
      "evaluations[1].action.name",
    ],
    ["a single one with it", { ...readsAlice, evaluations: [{ action: action("fly") }] }, "evaluations[0].action.name"],
    ["more than may be", { ...readsAlice, evaluations: Array.from({ length: 101 }, () => ({})) }, "evaluations"],
    ["one twice", `{"evaluations":[${text.replace("}", ',"id":"bob"}')}]}`, "evaluations[0].subject.id"],
  ])("%s refuses the whole request", async (_name, body, field) => {
    const { status, body: answer } = await askMany(body as object);
    expect([status, answer.error?.violations[0].field]).toEqual([400, field]);
  });

  test("shared members count for each evaluation", async () => {
    const resource = record("r", { note: "x".repeat(1_000), more: "x".repeat(1_000) });
    const subject = user(
      "alice",
      Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`p${i}`, "x".repeat(1_000)])),
    );
    const ask = (count: number) =>
      askMany({ ...readsAlice, subject, resource, evaluations: Array.from({ length: count }, () => ({})) });
    const { status, body } = await ask(100);
    expect([status, body.error?.violations]).toEqual([
      400,
      [
        {
          field: "evaluations",
          rule: "repeated.max_bytes",
          message: "must make questions of at most 1048576 bytes in all",
        },
      ],
    ]);
    expect(decisions(await ask(90))).toHaveLength(90);
  });
});

test.each(paths.map((path) => [path, methodOn(path)] as const))(
  "%s: the other protocols answer alike",
  async (path, method) => {
    const body = bodyFor(path);
    const { body: expected } = await rest(gateway.url + path, { token, body });
    const said = ({ decision, results }: Any) => ({ decision, results });
    expect(said(expected)).not.toEqual({});
    for (const client of wireClients(gateway.url)) {
      const call = async (bearer: string) =>
        (await client.call(method, requestFromRest(method, body), { authorization: `Bearer ${bearer}` })) as Any;
      expect(said((await call(token)).answer), client.name).toEqual(said(expected));
      expect((await call(await gateway.token(ordinary))).refusal, client.name).toMatchObject({
        reason: "missing_scope",
      });
    }
  },
);
