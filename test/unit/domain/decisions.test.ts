/** The three decision routes: what is answered, what is recorded, and in which order. */
import { expect, test } from "vitest";
import { parseRecordId, type RecordId } from "../../../src/base/ids.ts";
import { createKeyAccess } from "../../../src/domain/key-access.ts";
import { createProtection } from "../../../src/domain/protection.ts";
import type { KeyAccessRequest, ProtectionPlanRequest } from "../../../src/domain/requests.ts";
import { createWorld, described, guidance, identity, receiptOf, sha256 } from "./world.ts";

const digest = `sha256:${sha256("content")}`;
const plan: ProtectionPlanRequest = { ...described, operation: "protect", content_digest: digest };
const key: KeyAccessRequest = { ...described, operation: "wrap", content_digest: digest };
const keyTransport = {
  mode: "wrapped_key_reference",
  keyMaterialOrigin: "kms",
  stableKeyReferencePreferred: true,
} as const;

function setUp(changes: Parameters<typeof createWorld>[0] = {}) {
  const world = createWorld(changes);
  const { dependencies } = world;
  return { ...world, protection: createProtection(dependencies), keyAccess: createKeyAccess(dependencies) };
}

test("a permitted plan", async () => {
  const { protection, ledger } = setUp();
  const answer = await protection.plan(identity(), { ...plan, content_size_bytes: 42, purpose: "audit" });
  expect(answer.requestSummary).toEqual({
    workloadApplication: "payroll-export",
    workloadEnvironment: undefined,
    workloadComponent: undefined,
    resourceKind: "customer-record",
    resourceId: "cust-8841",
    mimeType: undefined,
    purpose: "audit",
    labelCount: 1,
    attributeCount: 1,
    operation: "protect",
    preferredArtifactProfile: "tdf",
    contentDigestPresent: true,
    contentSizeBytes: 42,
  });
  expect(answer.decision).toEqual({
    allow: true,
    requiredScopes: ["platform-api.access", "policy.read"],
    handlingMode: "local_embedded_enforcement",
    plaintextTransport: "forbidden_by_default",
    decisionId: ledger.records[0]?.recordId,
    policyRevision: "sha256:revision",
    reasons: ["permit-1"],
    obligations: [],
    receipt: receiptOf(ledger.records[0]?.recordId as RecordId, 1),
  });
  expect(parseRecordId(answer.decision.decisionId)).toBeDefined();
  expect(answer.execution).toEqual({
    protectLocally: true,
    localEnforcementLibrary: "sdk_embedded_library",
    sendPlaintextToPlatform: false,
    sendOnly: ["artifact_digest", "decision_id"],
    artifactProfile: "tdf",
    keyStrategy: "local_content_key",
    policyResolution: "metadata_only_control_plane",
    keyTransport: undefined,
  });
  expect(answer.warnings).toEqual([]);
});

test("its record", async () => {
  const { protection, ledger, engine } = setUp({ showReasons: false });
  engine.answer = { guidance: { keyTransport } };
  const answer = await protection.plan(identity(), plan);
  expect(answer.decision.reasons).toEqual([]);
  expect(ledger.records).toEqual([
    {
      kind: "decision",
      recordId: answer.decision.decisionId,
      tenantId: "tenant-a",
      requestId: "req-1",
      caller: { principal_id: "payroll-service", subject: "client-7f3a", auth_source: "bearer_token" },
      route: "/v1/sdk/protection-plan",
      policyRevision: "sha256:revision",
      request: plan,
      outcome: {
        allow: true,
        policy_revision: "sha256:revision",
        reasons: ["permit-1"],
        reasons_withheld: true,
        caller_scopes: ["platform-api.access", "policy.read"],
        guidance: {
          handling_mode: "local_embedded_enforcement",
          enforcement_mode: "local_embedded_enforcement",
          local_enforcement_library: "sdk_embedded_library",
          artifact_profile: "tdf",
          artifact_profile_overridden: false,
          key_strategy: "local_content_key",
          authorization_strategy: "policy_decision",
          policy_resolution: "metadata_only_control_plane",
          key_transport: {
            mode: "wrapped_key_reference",
            key_material_origin: "kms",
            stable_key_reference_preferred: true,
            raw_key_delivery_forbidden: true,
          },
          send_only: ["artifact_digest", "decision_id"],
          bind_policy_to: ["artifact_digest", "content_digest"],
          required_actions: [],
          evidence_expected: ["protect"],
          required_scopes: [],
          warnings: [],
        },
      },
    },
  ]);
});

test("a denied plan keeps the fixed flags, and tells no key transport", async () => {
  const { protection, keyAccess, engine, ledger } = setUp();
  engine.answer = { allow: false, guidance: { keyTransport } };
  const planned = await protection.plan(identity(), plan);
  expect(planned.decision).toMatchObject({ allow: false, plaintextTransport: "forbidden_by_default" });
  expect(planned.execution).toMatchObject({ protectLocally: false, sendPlaintextToPlatform: false });
  expect(planned.execution.keyTransport).toBeUndefined();
  const resolved = await protection.resolve(identity(), plan);
  expect(resolved.decision.allow).toBe(false);
  expect(resolved.handling).toMatchObject({ protectLocally: false, evidenceExpected: ["deny"] });
  const key_ = await keyAccess.plan(identity(), key);
  expect(key_.execution).toMatchObject({ localCryptographicOperation: false, sendPlaintextToPlatform: false });
  expect(key_.execution.keyTransport).toBeUndefined();
  for (const { outcome } of ledger.records) {
    expect(outcome).toMatchObject({ allow: false, guidance: { evidence_expected: ["deny"] } });
    expect(outcome.guidance).toHaveProperty("key_transport", undefined);
  }
});

test("a resolution", async () => {
  const { protection, engine } = setUp();
  engine.answer = { guidance: { requiredActions: ["notify-owner"], enforcementMode: "supervised" } };
  const answer = await protection.resolve(identity(), plan);
  expect(answer.decision).toMatchObject({
    allow: true,
    enforcementMode: "supervised",
    policyInputs: ["resource.kind"],
    requiredActions: ["notify-owner"],
  });
  expect(answer.handling).toEqual({
    protectLocally: true,
    plaintextTransport: "forbidden_by_default",
    bindPolicyTo: ["artifact_digest", "content_digest"],
    evidenceExpected: ["protect"],
  });
  expect(answer.requestSummary).not.toHaveProperty("preferredArtifactProfile");
});

test("a key plan with managed key", async () => {
  const { keyAccess, engine } = setUp();
  engine.answer = { guidance: { keyTransport, artifactProfile: "envelope" } };
  const answer = await keyAccess.plan(identity(), { ...key, key_reference: "kms://k", artifact_profile: "envelope" });
  expect(answer.requestSummary).toMatchObject({
    operation: "wrap",
    artifactProfile: "envelope",
    keyReferencePresent: true,
    contentDigestPresent: true,
  });
  expect(answer.decision).toMatchObject({ allow: true, operation: "wrap", keyReferencePresent: true });
  expect(answer.decision.requiredScopes).toEqual(["platform-api.access", "keys.use"]);
  expect(answer.execution).toEqual({
    localCryptographicOperation: true,
    platformRole: "authorize_only",
    sendPlaintextToPlatform: false,
    sendOnly: guidance.sendOnly,
    artifactProfile: "envelope",
    authorizationStrategy: "policy_decision",
    keyTransport: { ...keyTransport, rawKeyDeliveryForbidden: true },
  });
  expect(JSON.stringify(answer)).not.toContain("kms://k");
});

test.each([
  ["wrap", "wrap"],
  ["unwrap", "unwrap"],
  ["rewrap", "rewrapKey"],
] as const)("policies see %s as %s", async (operation, action) => {
  const { keyAccess, engine } = setUp();
  await keyAccess.plan(identity(), { ...key, operation, key_reference: "kms://k", artifact_profile: "tdf" });
  expect(engine.queries).toEqual([
    {
      caller: identity().caller,
      action,
      claimed: { ...described, content_digest_present: true, key_reference: "kms://k", artifact_profile: "tdf" },
    },
  ]);
});

test("policies see the claims of a plan, and no digest", async () => {
  const { protection, engine } = setUp();
  const { content_digest: _, ...without } = plan;
  const request = { ...without, purpose: "p", content_size_bytes: 0, preferred_artifact_profile: "tdf" } as const;
  await protection.plan(identity(), request);
  const { operation, preferred_artifact_profile, ...claims } = request;
  expect(engine.queries[0]).toMatchObject({ action: operation });
  expect(engine.queries[0]?.claimed).toEqual({
    ...claims,
    artifact_profile: preferred_artifact_profile,
    content_digest_present: false,
  });
});

test.each([
  ["no digest", { content_digest: undefined }, {}, [/^content_digest is absent/]],
  ["odd digest", { content_digest: "sha256:short" }, {}, [/^content_digest is not hexadecimal/]],
  ["policy's own", {}, { warnings: ["mind the gap"] }, [/^mind the gap$/]],
  ["overridden profile", {}, { artifactProfileOverridden: true }, [/execution\.artifact_profile/]],
])("warning: %s", async (_name, change, given, expected) => {
  const { protection, keyAccess, engine } = setUp();
  engine.answer = { guidance: given };
  const answers = [
    await protection.plan(identity(), { ...plan, ...change } as ProtectionPlanRequest),
    await keyAccess.plan(identity(), { ...key, ...change } as KeyAccessRequest),
  ];
  for (const { warnings } of answers) expect(warnings).toEqual(expected.map((text) => expect.stringMatching(text)));
});

test("scopes that policy requires join the route's, each once", async () => {
  const { protection, engine } = setUp();
  engine.answer = { guidance: { requiredScopes: ["policy.read", "pii.read"] } };
  const { decision } = await protection.plan(identity(), plan);
  expect(decision.requiredScopes).toEqual(["platform-api.access", "policy.read", "pii.read"]);
});

test("an overridden profile is told; the preferred one stays in the summary", async () => {
  const { protection, engine } = setUp();
  engine.answer = { guidance: { artifactProfile: "envelope", artifactProfileOverridden: true } };
  const answer = await protection.plan(identity(), { ...plan, preferred_artifact_profile: "tdf" });
  expect(answer.requestSummary.preferredArtifactProfile).toBe("tdf");
  expect(answer.execution.artifactProfile).toBe("envelope");
});

test("no label, attribute or reference is in an answer", async () => {
  const { protection, keyAccess } = setUp();
  const answers = [
    await protection.plan(identity(), plan),
    await protection.resolve(identity(), plan),
    await keyAccess.plan(identity(), { ...key, key_reference: "reference-secret" }),
  ];
  expect(JSON.stringify(answers)).not.toContain("secret");
});

test("what bootstrap does not list is refused, member by member, and nothing is decided", async () => {
  const { protection, keyAccess, ledger, engine } = setUp({
    supportedOperations: ["protect"],
    supportedProfiles: ["tdf"],
  });
  const fields = (...names: string[]) => ({
    reason: "invalid_request",
    details: { violations: names.map((field) => expect.objectContaining({ field })) },
  });
  const call = identity();
  const unlisted = { ...plan, operation: "access", preferred_artifact_profile: "envelope" } as const;
  await expect(protection.plan(call, unlisted)).rejects.toMatchObject(
    fields("operation", "preferred_artifact_profile"),
  );
  await expect(protection.resolve(call, { ...plan, operation: "rewrap" })).rejects.toMatchObject(fields("operation"));
  const asEnvelope = { ...key, artifact_profile: "envelope" } as const;
  await expect(keyAccess.plan(call, asEnvelope)).rejects.toMatchObject(fields("artifact_profile"));
  await expect(keyAccess.plan(call, { ...key, operation: "unwrap" })).rejects.toMatchObject(fields("operation"));
  await expect(keyAccess.plan(call, { ...key, operation: "rewrap" })).rejects.toMatchObject(fields("operation"));
  expect((await keyAccess.plan(call, key)).decision.allow).toBe(true);
  expect([ledger.appends, engine.queries.length]).toEqual([1, 1]);
});

test("nothing is answered before the record is durable, or when it cannot be", async () => {
  const { protection, keyAccess, ledger } = setUp();
  const answers = [
    () => protection.plan(identity(), plan),
    () => protection.resolve(identity(), plan),
    () => keyAccess.plan(identity(), key),
  ];
  for (const answer of answers) {
    const { promise, resolve } = Promise.withResolvers<void>();
    ledger.gate = promise;
    let isAnswered = false;
    const answering = answer().finally(() => {
      isAnswered = true;
    });
    // Everything but the append is done when the event loop has turned.
    await new Promise((done) => setImmediate(done));
    expect(isAnswered).toBe(false);
    resolve();
    expect((await answering).decision.allow).toBe(true);

    ledger.gate = Promise.reject(new Error("store is down"));
    await expect(answer()).rejects.toThrow("store is down");
  }
});
