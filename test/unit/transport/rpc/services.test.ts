/** The eight answers as messages: what a caller of the JSON routes would read. */
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type Message,
  type MessageInitShape,
  toJson,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { createContextValues, createHandlerContext, type HandlerContext } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { DiscoveryService } from "../../../../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../../../../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../../../../gen/platform/sdk/v1/registration_pb.ts";
import { createDiscovery } from "../../../../src/domain/discovery.ts";
import { createEvidence } from "../../../../src/domain/evidence.ts";
import { createKeyAccess } from "../../../../src/domain/key-access.ts";
import { createProtection } from "../../../../src/domain/protection.ts";
import { createRegistrations } from "../../../../src/domain/registration.ts";
import { kCall } from "../../../../src/transport/calls/call.ts";
import { createDiscoveryService } from "../../../../src/transport/rpc/discovery.ts";
import { createEvidenceService } from "../../../../src/transport/rpc/evidence.ts";
import { createProtectionService } from "../../../../src/transport/rpc/protection.ts";
import { createRegistrationService } from "../../../../src/transport/rpc/registration.ts";
import { createWorld, identity, sha256 } from "../../domain/world.ts";

function setUp() {
  const world = createWorld();
  const { dependencies } = world;
  const name = "svc-platform-api";
  const impls: Record<string, Record<string, unknown>> = {
    DiscoveryService: createDiscoveryService(name, createDiscovery(dependencies.deployment, dependencies.live)),
    ProtectionService: createProtectionService(name, createProtection(dependencies), createKeyAccess(dependencies)),
    RegistrationService: createRegistrationService(name, createRegistrations(dependencies)),
    EvidenceService: createEvidenceService(name, createEvidence(dependencies)),
  };
  /** Calls as Connect would, and writes the answer as canonical JSON with every implicit member. */
  const call = async <M extends DescMethodUnary>(method: M, init: MessageInitShape<M["input"]>) => {
    const impl = impls[method.parent.name]?.[method.localName] as (
      request: unknown,
      context: HandlerContext,
    ) => unknown;
    const answer = await impl(create(method.input, init), contextOf(method));
    const message = create(method.output, answer as MessageInitShape<M["output"]>);
    expectWhole(method.output, message);
    return toJson(method.output, message, { alwaysEmitImplicit: true, useProtoFieldName: true });
  };
  return { ...world, call };
}

/** A message that names its type is taken as it is: then whatever it lacks nobody adds. */
function expectWhole(desc: DescMessage, message: Message): void {
  expect(message.$typeName).toBe(desc.typeName);
  for (const field of desc.fields) {
    const value = (message as unknown as Record<string, unknown>)[field.localName];
    if (field.presence === FeatureSet_FieldPresence.IMPLICIT) expect(value, field.toString()).toBeDefined();
    const messages = field.fieldKind === "list" && field.listKind === "message" ? (value as Message[]) : [value];
    if (field.message !== undefined && value !== undefined)
      for (const inner of messages) expectWhole(field.message, inner as Message);
  }
}

function contextOf(method: DescMethodUnary): HandlerContext {
  return createHandlerContext({
    service: method.parent,
    method,
    protocolName: "grpc",
    requestMethod: "POST",
    url: "https://host.example/",
    contextValues: createContextValues().set(kCall, {
      ...identity(),
      receivedAtMs: 0,
      headerValues: () => [],
      span: undefined,
    }),
  });
}

const described = {
  workload: { application: "payroll-export" },
  resource: { kind: "customer-record", id: "cust-8841" },
  labels: ["a", "b"],
  attributes: { region: "eu" },
};
const caller = {
  tenant_id: "tenant-a",
  principal_id: "payroll-service",
  subject: "client-7f3a",
  auth_source: "bearer_token",
  scopes: ["platform-api.access", "policy.read"],
};
const head = { service: "svc-platform-api", status: "ready", caller };
const common = {
  workload_application: "payroll-export",
  resource_kind: "customer-record",
  resource_id: "cust-8841",
  label_count: 2,
  attribute_count: 1,
};
const domains = expect.arrayContaining([
  { domain: "policy", configured: true, reason: "A policy set is in force." },
  { domain: "identity", configured: true, reason: expect.any(String) },
]);
/** As the message has it: 64-bit integers are text in canonical JSON. */
const receipt = {
  record_id: expect.any(String),
  log_origin: "log",
  leaf_index: "1",
  tree_size: "2",
  leaf_hash: "aGFzaA==",
  proof: "c2sp.org/tlog-proof@v1\n",
  leaf: "bGVhZg==",
  opening: "b3BlbmluZw==",
  record: "cmVjb3Jk",
};
const decision = {
  allow: true,
  decision_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
  policy_revision: "sha256:revision",
  reasons: ["permit-1"],
  obligations: [],
  receipt,
};
const auth = {
  auth_mode: "AUTH_MODE_BEARER_TOKEN",
  auth_configuration: {
    mode: "oauth_client_credentials",
    proof_of_possession: "mtls",
    oidc_issuer: "https://issuer.example/realms/platform",
    oidc_audience: "api://svc-platform-api",
    oidc_issuer_ready: true,
    mtls_ready: true,
  },
};

test("whoami", async () => {
  const { call } = setUp();
  expect(await call(DiscoveryService.method.whoAmI, {})).toEqual({ ...head, status: "ok" });
});

test("capabilities", async () => {
  const { call } = setUp();
  const answer = await call(DiscoveryService.method.getCapabilities, {});
  expect(answer).toEqual({
    ...head,
    ...auth,
    default_required_scopes: ["platform-api.access"],
    routes: expect.arrayContaining([
      { route: "/v1/sdk/whoami", domain: "identity", configured: true, required_scopes: [] },
      { route: "/v1/sdk/evidence", domain: "evidence_ledger", configured: true, required_scopes: ["evidence.write"] },
    ]),
  });
  expect((answer as { routes: unknown[] }).routes).toHaveLength(8);
});

test("bootstrap", async () => {
  const { call } = setUp();
  expect(await call(DiscoveryService.method.getBootstrap, {})).toEqual({
    ...head,
    ...auth,
    enforcement_model: "embedded_local_library",
    plaintext_to_platform: false,
    policy_resolution_mode: "metadata_only_control_plane",
    supported_operations: [1, 2, 3].map((n) => `PROTECTION_OPERATION_${["", "PROTECT", "ACCESS", "REWRAP"][n]}`),
    supported_artifact_profiles: [
      "ARTIFACT_PROFILE_TDF",
      "ARTIFACT_PROFILE_ENVELOPE",
      "ARTIFACT_PROFILE_DETACHED_SIGNATURE",
    ],
    platform_domains: domains,
  });
});

test("protection-plan", async () => {
  const { call, engine, ledger } = setUp();
  const keyTransport = {
    mode: "wrapped_key_reference",
    keyMaterialOrigin: "kms",
    stableKeyReferencePreferred: true,
  } as const;
  engine.answer = { guidance: { keyTransport } };
  const contentSizeBytes = 2n ** 53n - 1n;
  expect(await call(ProtectionService.method.planProtection, { ...described, operation: 1, contentSizeBytes })).toEqual(
    {
      ...head,
      request_summary: {
        ...common,
        operation: "PROTECTION_OPERATION_PROTECT",
        preferred_artifact_profile: "ARTIFACT_PROFILE_TDF",
        content_digest_present: false,
        content_size_bytes: "9007199254740991",
      },
      decision: {
        ...decision,
        required_scopes: ["platform-api.access", "policy.read"],
        handling_mode: "local_embedded_enforcement",
        plaintext_transport: "forbidden_by_default",
      },
      execution: {
        protect_locally: true,
        local_enforcement_library: "sdk_embedded_library",
        send_plaintext_to_platform: false,
        send_only: ["artifact_digest", "decision_id"],
        artifact_profile: "ARTIFACT_PROFILE_TDF",
        key_strategy: "local_content_key",
        policy_resolution: "metadata_only_control_plane",
        key_transport: {
          mode: "wrapped_key_reference",
          key_material_origin: "kms",
          stable_key_reference_preferred: true,
          raw_key_delivery_forbidden: true,
        },
      },
      platform_domains: domains,
      warnings: [expect.stringMatching(/^content_digest is absent/)],
    },
  );
  expect(ledger.records[0]?.request).toEqual({ ...described, operation: "protect", content_size_bytes: 2 ** 53 - 1 });
});

test("policy-resolve, denied", async () => {
  const { call, engine } = setUp();
  engine.answer = { allow: false };
  const contentDigest = `sha256:${sha256("x")}`;
  expect(await call(ProtectionService.method.resolvePolicy, { ...described, operation: 2, contentDigest })).toEqual({
    ...head,
    request_summary: { ...common, operation: "PROTECTION_OPERATION_ACCESS", content_digest_present: true },
    decision: {
      ...decision,
      allow: false,
      required_scopes: ["platform-api.access", "policy.read"],
      enforcement_mode: "local_embedded_enforcement",
      policy_inputs: ["resource.kind"],
      required_actions: [],
    },
    handling: {
      protect_locally: false,
      plaintext_transport: "forbidden_by_default",
      bind_policy_to: ["artifact_digest", "content_digest"],
      evidence_expected: ["deny"],
    },
    platform_domains: domains,
    warnings: [],
  });
});

test("key-access-plan", async () => {
  const { call } = setUp();
  expect(
    await call(ProtectionService.method.planKeyAccess, { ...described, operation: 2, keyReference: "local" }),
  ).toEqual({
    ...head,
    request_summary: {
      ...common,
      operation: "KEY_ACCESS_OPERATION_UNWRAP",
      artifact_profile: "ARTIFACT_PROFILE_TDF",
      key_reference_present: true,
      content_digest_present: false,
    },
    decision: {
      ...decision,
      operation: "KEY_ACCESS_OPERATION_UNWRAP",
      required_scopes: ["platform-api.access", "keys.use"],
      key_reference_present: true,
    },
    execution: {
      local_cryptographic_operation: true,
      platform_role: "authorize_only",
      send_plaintext_to_platform: false,
      send_only: ["artifact_digest", "decision_id"],
      artifact_profile: "ARTIFACT_PROFILE_TDF",
      authorization_strategy: "policy_decision",
    },
    platform_domains: domains,
    warnings: [expect.any(String)],
  });
});

test("all answers that tell of the platform's domains tell the same", async () => {
  const { call } = setUp();
  const request = { ...described, operation: 1 } as const;
  const answers = [
    await call(DiscoveryService.method.getBootstrap, {}),
    await call(ProtectionService.method.planProtection, request),
    await call(ProtectionService.method.resolvePolicy, request),
    await call(ProtectionService.method.planKeyAccess, request),
  ];
  const [first, ...others] = answers.map((answer) => (answer as { platform_domains: unknown[] }).platform_domains);
  expect(first).toHaveLength(7);
  expect(others).toEqual([first, first, first]);
});

test("artifact-register, with its object", async () => {
  const { call, ledger } = setUp();
  const request = {
    ...described,
    operation: 1,
    artifactKind: 2,
    artifactProfile: 2,
    artifactDigest: `sha256:${sha256("hello world")}`,
    artifactObjectB64: Buffer.from("hello world").toString("base64"),
  } as const;
  expect(await call(RegistrationService.method.registerArtifact, request)).toEqual({
    ...head,
    request_summary: {
      ...common,
      operation: "PROTECTION_OPERATION_PROTECT",
      artifact_kind: "ARTIFACT_KIND_TDF_MANIFEST",
      artifact_profile: "ARTIFACT_PROFILE_ENVELOPE",
      artifact_digest: request.artifactDigest,
      artifact_cid: "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e",
      artifact_locator_present: false,
      decision_id_present: false,
      key_reference_present: false,
    },
    registration: {
      accepted: true,
      required_scopes: ["platform-api.access", "artifacts.write"],
      artifact_transport: "metadata_only",
      send_plaintext_to_platform: false,
      catalog_actions: ["record_artifact_metadata", "derive_artifact_cid"],
      evidence_expected: ["protect"],
      receipt,
    },
    platform_domains: domains,
    warnings: [],
  });
  expect(JSON.stringify(ledger.records)).not.toContain(request.artifactObjectB64);
});

test("evidence", async () => {
  const { call } = setUp();
  expect(await call(EvidenceService.method.recordEvidence, { ...described, eventType: 4 })).toEqual({
    ...head,
    request_summary: {
      ...common,
      event_type: "EVIDENCE_EVENT_TYPE_DENY",
      artifact_digest_present: false,
      decision_id_present: false,
    },
    ingestion: {
      accepted: true,
      required_scopes: ["platform-api.access", "evidence.write"],
      plaintext_transport: "forbidden_by_default",
      send_only: expect.arrayContaining(["event_type", "decision_id"]),
      correlate_by: ["resource.id"],
      receipt,
    },
    platform_domains: domains,
    warnings: [expect.stringMatching(/cannot be linked/)],
  });
});
