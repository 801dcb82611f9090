/** Every route over REST: exactly the members that the contract names, in their order, with the values callers test. */
import { describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { gatewayForFile, type RestAnswer, rest } from "../harness/gateway.ts";
import { h1Exchange, h1Request } from "../harness/h1.ts";
import { h2Call, h2Close, h2Connect } from "../harness/h2.ts";

const gateway = await gatewayForFile();
const token = await gateway.token();

const uuid7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const head = "service status caller";
const callerKeys = "tenant_id principal_id subject auth_source scopes";
const tail = "platform_domains warnings";
const common = "workload_application resource_kind label_count attribute_count";
/** Those that every sample request has, and a request need not have. */
const optionalCommon = "workload_environment workload_component resource_id mime_type purpose";
const allScopes = ["platform-api.access", "policy.read", "keys.use", "artifacts.write", "evidence.write"];
/** Members of every execution, and of every decision. */
const sent = "send_plaintext_to_platform send_only artifact_profile";
const decided = "allow required_scopes decision_id policy_revision reasons obligations receipt";
/** What the platform's sample policies deny to everybody. */
const denied = { labels: ["do-not-export"] };
const keyTransportKeys = "mode key_material_origin stable_key_reference_preferred raw_key_delivery_forbidden";

async function ask(route: string, body?: unknown): Promise<RestAnswer["body"]> {
  const answer = await rest(gateway.url + route, { token, ...(body !== undefined && { body }) });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  expect(answer.headers.get("content-type")).toBe("application/json");
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expectNothingHollow(answer.body);
  expect(Object.keys(answer.body).slice(0, 3)).toEqual(head.split(" "));
  expect(answer.body).toMatchObject({ service: "svc-platform-api", status: route.endsWith("whoami") ? "ok" : "ready" });
  expectKeys(answer.body.caller, callerKeys);
  return answer.body;
}

/** The sample request of the route with members changed; undefined leaves one out. */
function sample(route: string, members: Readonly<Record<string, unknown>> = {}, decisionId?: string) {
  return { ...sampleCalls(decisionId).find((call) => call.route === route)?.body, ...members };
}

/** The smallest request that is good. */
const minimal = { workload: { application: "a" }, resource: { kind: "k" } };

/** @param keys names of all members, separated by spaces */
function expectKeys(value: object, keys: string): void {
  expect(Object.keys(value).sort()).toEqual(keys.split(" ").sort());
}

/** Absent members are left out: none is null, and none is an empty text that stands for absence. */
function expectNothingHollow(value: unknown, path = ""): void {
  expect(value, path).not.toBeNull();
  expect(value, path).not.toBe("");
  if (typeof value === "object") {
    for (const [name, member] of Object.entries(value as object)) expectNothingHollow(member, `${path}/${name}`);
  }
}

function expectDomains(domains: readonly object[]): void {
  expect(domains.length).toBeGreaterThan(0);
  for (const domain of domains) {
    expectKeys(domain, "domain configured reason");
    expect(domain).toMatchObject({ configured: true, reason: expect.stringMatching(/./) });
  }
}

describe("discovery", () => {
  test("GET /v1/sdk/whoami", async () => {
    const answer = await ask("/v1/sdk/whoami");
    expectKeys(answer, head);
    expect(answer.caller).toEqual({
      tenant_id: "tenant-a",
      principal_id: "payroll-service",
      subject: "payroll-service",
      auth_source: "bearer_token",
      scopes: allScopes,
    });
  });

  test("GET /v1/sdk/capabilities", async () => {
    const answer = await ask("/v1/sdk/capabilities");
    expectKeys(answer, `${head} auth_mode auth_configuration default_required_scopes routes`);
    expect(answer).toMatchObject({ auth_mode: "bearer_token", default_required_scopes: ["platform-api.access"] });
    expect(answer.auth_configuration).toEqual({
      mode: "oauth_client_credentials",
      proof_of_possession: "none",
      oidc_issuer: gateway.issuer.url,
      oidc_audience: "api://svc-platform-api",
      oidc_issuer_ready: true,
      mtls_ready: false,
    });
    for (const route of answer.routes) expectKeys(route, "route domain configured required_scopes");
    // Without the default ones: they are said once.
    expect(
      Object.fromEntries(answer.routes.map((entry: Record<string, unknown>) => [entry.route, entry.required_scopes])),
    ).toEqual({
      "/v1/sdk/capabilities": [],
      "/v1/sdk/whoami": [],
      "/v1/sdk/bootstrap": [],
      "/v1/sdk/protection-plan": ["policy.read"],
      "/v1/sdk/policy-resolve": ["policy.read"],
      "/v1/sdk/key-access-plan": ["keys.use"],
      "/v1/sdk/artifact-register": ["artifacts.write"],
      "/v1/sdk/evidence": ["evidence.write"],
    });
  });

  test("GET /v1/sdk/bootstrap", async () => {
    const answer = await ask("/v1/sdk/bootstrap");
    const supported = "policy_resolution_mode supported_operations supported_artifact_profiles platform_domains";
    expectKeys(answer, `${head} auth_mode auth_configuration enforcement_model plaintext_to_platform ${supported}`);
    expect(answer).toMatchObject({
      enforcement_model: "embedded_local_library",
      plaintext_to_platform: false,
      policy_resolution_mode: "metadata_only_control_plane",
      supported_operations: ["protect", "access", "rewrap"],
      supported_artifact_profiles: ["tdf", "envelope", "detached_signature"],
    });
    expectDomains(answer.platform_domains);
  });

  test("what capabilities prints is what is enforced", async () => {
    const { routes, default_required_scopes } = await ask("/v1/sdk/capabilities");
    for (const { route, required_scopes } of routes) {
      const needed: string[] = [...default_required_scopes, ...required_scopes];
      for (const missing of needed) {
        const scope = allScopes.filter((name) => name !== missing).join(" ");
        const refused = await rest(gateway.url + route, {
          token: await gateway.token({ scope }),
          ...(required_scopes.length > 0 && { body: minimal }),
        });
        expect(refused.status).toBe(403);
        expect(refused.body.error).toMatchObject({ required_scopes: needed, missing_scopes: [missing] });
      }
    }
  });
});

describe("POST /v1/sdk/protection-plan", () => {
  const route = "/v1/sdk/protection-plan";
  const decisionKeys = `${decided} handling_mode plaintext_transport`;
  const executionKeys = `${sent} protect_locally local_enforcement_library key_strategy policy_resolution`;
  const summaryKeys = `${common} operation preferred_artifact_profile content_digest_present`;

  test("everything given", async () => {
    const answer = await ask(route, sample(route));
    expectKeys(answer, `${head} request_summary decision execution ${tail}`);
    expect(answer.request_summary).toEqual({
      workload_application: "payroll-export",
      workload_environment: "production",
      workload_component: "nightly-writer",
      resource_kind: "customer-record",
      resource_id: "cust-8841",
      mime_type: "application/pdf",
      purpose: "quarterly-audit",
      label_count: 1,
      attribute_count: 1,
      operation: "protect",
      preferred_artifact_profile: "tdf",
      content_digest_present: true,
      content_size_bytes: 48213,
    });
    expectKeys(answer.decision, decisionKeys);
    expect(answer.decision).toMatchObject({
      allow: true,
      required_scopes: ["platform-api.access", "policy.read"],
      handling_mode: "local_embedded_enforcement",
      plaintext_transport: "forbidden_by_default",
      decision_id: expect.stringMatching(uuid7),
      policy_revision: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      reasons: expect.arrayContaining([expect.any(String)]),
      obligations: [],
    });
    expectKeys(answer.execution, executionKeys);
    expect(answer.execution).toMatchObject({
      protect_locally: true,
      local_enforcement_library: "sdk_embedded_library",
      send_plaintext_to_platform: false,
      artifact_profile: "tdf",
    });
    expectDomains(answer.platform_domains);
    expect(answer.warnings).toEqual([]);
  });

  test("as little as possible given: flags and lists are there, absent options are not", async () => {
    const answer = await ask(route, { operation: "protect", ...minimal });
    expectKeys(answer.request_summary, summaryKeys);
    expect(answer.request_summary).toMatchObject({ label_count: 0, attribute_count: 0, content_digest_present: false });
    // The resolved profile, where the request has none.
    expect(answer.request_summary.preferred_artifact_profile).toBe(answer.execution.artifact_profile);
    expectKeys(answer.execution, executionKeys);
    expect(answer.warnings).toEqual([expect.stringContaining("content_digest")]);
  });

  test.each([
    ["null", null],
    ["the empty string", ""],
  ])("an option that is %s is absent", async (_name, hollow) => {
    const answer = await ask(route, {
      operation: "protect",
      workload: { application: "a", environment: hollow, component: hollow },
      resource: { kind: "k", id: hollow, mime_type: hollow },
      preferred_artifact_profile: hollow,
      content_digest: hollow,
      purpose: hollow,
      ...(hollow === null && { content_size_bytes: null, labels: null, attributes: null }),
    });
    expectKeys(answer.request_summary, summaryKeys);
  });

  test("a size of zero is there", async () => {
    const answer = await ask(route, { operation: "protect", ...minimal, content_size_bytes: 0 });
    expect(answer.request_summary.content_size_bytes).toBe(0);
    const largest = await ask(route, { operation: "protect", ...minimal, content_size_bytes: 2 ** 53 - 1 });
    expect(largest.request_summary.content_size_bytes).toBe(9007199254740991);
  });

  test("a denial is an answer", async () => {
    const answer = await ask(route, sample(route, denied));
    expect(answer.decision.allow).toBe(false);
    expectKeys(answer.decision, decisionKeys);
    expectKeys(answer.execution, executionKeys);
    expect(answer.execution).toMatchObject({ protect_locally: false, send_plaintext_to_platform: false });
    expect(answer.decision.plaintext_transport).toBe("forbidden_by_default");
  });
});

describe("POST /v1/sdk/policy-resolve", () => {
  const route = "/v1/sdk/policy-resolve";
  const decisionKeys = `${decided} enforcement_mode policy_inputs required_actions`;
  const handlingKeys = "protect_locally plaintext_transport bind_policy_to evidence_expected";

  test("everything given", async () => {
    const answer = await ask(route, sample(route, { content_size_bytes: 7 }));
    expectKeys(answer, `${head} request_summary decision handling ${tail}`);
    expectKeys(
      answer.request_summary,
      `${common} ${optionalCommon} operation content_digest_present content_size_bytes`,
    );
    expectKeys(answer.decision, decisionKeys);
    expect(answer.decision).toMatchObject({
      allow: true,
      enforcement_mode: "local_embedded_enforcement",
      required_scopes: ["platform-api.access", "policy.read"],
      decision_id: expect.stringMatching(uuid7),
    });
    expect(answer.handling).toEqual({
      protect_locally: true,
      plaintext_transport: "forbidden_by_default",
      bind_policy_to: ["artifact_digest", "content_digest"],
      evidence_expected: ["access"],
    });
    expectDomains(answer.platform_domains);
    expect(answer.warnings).toEqual([]);
  });

  test("as little as possible given", async () => {
    const answer = await ask(route, { operation: "access", ...minimal });
    expectKeys(answer.request_summary, `${common} operation content_digest_present`);
  });

  test("a denial expects evidence of itself", async () => {
    const answer = await ask(route, sample(route, denied));
    expect(answer.decision.allow).toBe(false);
    expectKeys(answer.decision, decisionKeys);
    expectKeys(answer.handling, handlingKeys);
    expect(answer.handling).toMatchObject({ protect_locally: false, evidence_expected: ["deny"] });
  });

  test("takes no profile", async () => {
    const answer = await rest(gateway.url + route, {
      token,
      body: sample(route, { preferred_artifact_profile: "tdf" }),
    });
    expect(answer.status).toBe(400);
    expect(answer.body.error.violations).toMatchObject([{ field: "preferred_artifact_profile" }]);
  });
});

describe("POST /v1/sdk/key-access-plan", () => {
  const route = "/v1/sdk/key-access-plan";
  const decisionKeys = `${decided} operation key_reference_present`;
  const summaryKeys = `${common} operation artifact_profile key_reference_present content_digest_present`;
  const executionKeys = `${sent} local_cryptographic_operation platform_role authorization_strategy`;

  test("a managed key", async () => {
    const answer = await ask(route, sample(route));
    expectKeys(answer, `${head} request_summary decision execution ${tail}`);
    expectKeys(answer.request_summary, `${summaryKeys} ${optionalCommon}`);
    expectKeys(answer.decision, decisionKeys);
    expect(answer.decision).toMatchObject({
      allow: true,
      operation: "wrap",
      required_scopes: ["platform-api.access", "keys.use"],
      key_reference_present: true,
    });
    expectKeys(answer.execution, `${executionKeys} key_transport`);
    expect(answer.execution).toMatchObject({
      local_cryptographic_operation: true,
      platform_role: "authorize_only",
      send_plaintext_to_platform: false,
      artifact_profile: "tdf",
    });
    expectKeys(answer.execution.key_transport, keyTransportKeys);
    expect(answer.execution.key_transport).toMatchObject({
      mode: "wrapped_key_reference",
      key_material_origin: "kms",
      raw_key_delivery_forbidden: true,
    });
  });

  test.each([undefined, "local-symmetric-key", "local-tdf-key"])(
    "a key of the caller's own (%s)",
    async (reference) => {
      const answer = await ask(route, sample(route, { key_reference: reference }));
      expectKeys(answer.execution, executionKeys);
      expect(answer.decision).toMatchObject({ allow: true, key_reference_present: reference !== undefined });
    },
  );

  test.each(["wrap", "unwrap", "rewrap"])("%s is echoed, with the profile that was asked for", async (operation) => {
    for (const profile of ["tdf", "envelope"]) {
      const answer = await ask(route, sample(route, { operation, artifact_profile: profile }));
      expect(answer.decision.operation).toBe(operation);
      expect(answer.execution.artifact_profile).toBe(profile);
      expect(answer.request_summary).toMatchObject({ operation, artifact_profile: profile });
    }
  });

  test("a denial gives no key", async () => {
    // Production data without a purpose.
    const answer = await ask(route, sample(route, { operation: "unwrap", purpose: undefined }));
    expect(answer.decision.allow).toBe(false);
    expectKeys(answer.decision, decisionKeys);
    expectKeys(answer.execution, executionKeys);
    expect(answer.execution.local_cryptographic_operation).toBe(false);
  });

  test("as little as possible given", async () => {
    const answer = await ask(route, { operation: "unwrap", ...minimal });
    expectKeys(answer.request_summary, summaryKeys);
    expectKeys(answer.decision, decisionKeys);
  });
});

describe("POST /v1/sdk/artifact-register", () => {
  const route = "/v1/sdk/artifact-register";
  const transport = "artifact_transport send_plaintext_to_platform";
  const registrationKeys = `accepted required_scopes ${transport} catalog_actions evidence_expected receipt`;
  const flags = ["artifact_locator_present", "decision_id_present", "key_reference_present"];

  test("everything given", async () => {
    const { decision } = await ask("/v1/sdk/protection-plan", sample("/v1/sdk/protection-plan"));
    const more = {
      artifact_merkle_root_cid: "bafkreibme22gw2h7y2h7tg2fhqotaqjucnbc24deqo72b6mkl2egezxhvy",
      artifact_object_b64: Buffer.from("foo").toString("base64"),
      key_reference: "kms://tenant-a/keys/42",
    };
    const answer = await ask(route, sample(route, more, decision.decision_id));
    expectKeys(answer, `${head} request_summary registration ${tail}`);
    expect(answer.request_summary).toEqual({
      workload_application: "payroll-export",
      workload_environment: "production",
      workload_component: "nightly-writer",
      resource_kind: "customer-record",
      resource_id: "cust-8841",
      mime_type: "application/pdf",
      purpose: "quarterly-audit",
      label_count: 1,
      attribute_count: 1,
      operation: "protect",
      artifact_kind: "data_object",
      artifact_profile: "tdf",
      artifact_digest: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
      // sha2-256 of "foo", raw: the well-known CID of these three bytes.
      artifact_cid: "bafkreibme22gw2h7y2h7tg2fhqotaqjucnbc24deqo72b6mkl2egezxhvy",
      artifact_merkle_root_cid: "bafkreibme22gw2h7y2h7tg2fhqotaqjucnbc24deqo72b6mkl2egezxhvy",
      artifact_locator_present: true,
      decision_id_present: true,
      key_reference_present: true,
    });
    expectKeys(answer.registration, registrationKeys);
    expect(answer.registration).toMatchObject({
      accepted: true,
      required_scopes: ["platform-api.access", "artifacts.write"],
      artifact_transport: "metadata_only",
      send_plaintext_to_platform: false,
    });
    expect(answer.registration.catalog_actions.length).toBeGreaterThan(0);
    expectDomains(answer.platform_domains);
    expect(answer.warnings).toEqual([]);
  });

  test("as little as possible given, a digest that callers make up among it", async () => {
    const answer = await ask(route, {
      operation: "protect",
      ...minimal,
      artifact_profile: "envelope",
      artifact_digest: "sha256:integration-full-plaintext",
    });
    expectKeys(answer.request_summary, `${common} operation artifact_profile artifact_digest ${flags.join(" ")}`);
    for (const flag of flags) expect(answer.request_summary[flag]).toBe(false);
    expect(answer.registration.accepted).toBe(true);
    expect(answer.warnings).toEqual([expect.stringContaining("artifact_digest")]);
  });
});

describe("POST /v1/sdk/evidence", () => {
  const route = "/v1/sdk/evidence";
  const summaryKeys = `${common} event_type artifact_digest_present decision_id_present`;
  const ingestionKeys = "accepted required_scopes plaintext_transport send_only correlate_by receipt";

  test("everything given", async () => {
    const { decision } = await ask("/v1/sdk/protection-plan", sample("/v1/sdk/protection-plan"));
    const cid = "bafkreibme22gw2h7y2h7tg2fhqotaqjucnbc24deqo72b6mkl2egezxhvy";
    const body = sample(route, { artifact_cid: cid, artifact_merkle_root_cid: cid }, decision.decision_id);
    const answer = await ask(route, body);
    expectKeys(answer, `${head} request_summary ingestion ${tail}`);
    const given = "artifact_kind artifact_profile artifact_cid artifact_merkle_root_cid outcome occurred_at";
    expectKeys(answer.request_summary, `${summaryKeys} ${optionalCommon} ${given}`);
    expectKeys(answer.ingestion, ingestionKeys);
    expect(answer.ingestion).toMatchObject({
      accepted: true,
      required_scopes: ["platform-api.access", "evidence.write"],
      plaintext_transport: "forbidden_by_default",
      correlate_by: expect.arrayContaining(["decision_id", "artifact_digest"]),
    });
    expectDomains(answer.platform_domains);
    expect(answer.warnings).toEqual([]);
  });

  test("as little as possible given: empty lists are there, and the zero time is absent", async () => {
    const body = { event_type: "deny", ...minimal, occurred_at: "0001-01-01T00:00:00Z", outcome: "" };
    const answer = await ask(route, body);
    expectKeys(answer.request_summary, summaryKeys);
    expect(answer.request_summary).toMatchObject({ artifact_digest_present: false, decision_id_present: false });
    expectKeys(answer.ingestion, ingestionKeys);
    expect(answer.ingestion.correlate_by).toEqual([]);
  });

  test("a retry without the zero time is the same event", async () => {
    const headers = { "idempotency-key": "zero-time" };
    const record = (more: object) =>
      rest(gateway.url + route, { token, headers, body: { event_type: "deny", ...minimal, ...more } });
    const first = await record({ occurred_at: "0001-01-01T00:00:00Z" });
    for (const more of [{}, { occurred_at: null }, { occurred_at: "0001-01-01T01:00:00+01:00" }]) {
      const { status, body } = await record(more);
      expect([status, body.ingestion?.receipt.record_id]).toEqual([200, first.body.ingestion.receipt.record_id]);
    }
    expect((await record({ occurred_at: "2026-03-01T12:00:00Z" })).status).toBe(409);
  });
});

/** An answer as it came, over HTTP/1.1 and over HTTP/2: its declared size, and its text. */
async function exchanges(route: string, body: unknown): Promise<readonly { sizeBytes: number; text: string }[]> {
  const bytes = Buffer.from(JSON.stringify(body));
  const authorization = `Bearer ${token}`;
  const lines = [
    `authorization: ${authorization}`,
    "content-type: application/json",
    `content-length: ${bytes.length}`,
  ];
  const h1 = await h1Exchange(gateway.url, Buffer.concat([Buffer.from(h1Request(`POST ${route}`, lines)), bytes]));
  const session = await h2Connect(gateway.url);
  const headers = { authorization, "content-type": "application/json" };
  const h2 = await h2Call(session, { path: route, headers, body: bytes });
  await h2Close(session);
  return [
    { sizeBytes: Number(h1?.headers.get("content-length")), text: String(h1?.text) },
    { sizeBytes: Number(h2.headers["content-length"]), text: h2.body.toString() },
  ];
}

test.each(["é", "— 日本語 😀 \u2028", "é— 日本語 😀".repeat(20)])(
  "text beyond ASCII is answered in UTF-8, with its size in bytes: %s",
  async (purpose) => {
    const route = "/v1/sdk/protection-plan";
    for (const { sizeBytes, text } of await exchanges(route, sample(route, { purpose }))) {
      expect(sizeBytes).toBe(Buffer.byteLength(text));
      expect(JSON.parse(text).request_summary.purpose).toBe(purpose);
      expect(JSON.parse(text).decision.receipt.proof).toContain("\n— ");
    }
  },
);
