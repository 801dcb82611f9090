/** Makes all eight calls with the client that OpenAPI Generator makes for TypeScript. Prints one JSON object. */
import {
  ArtifactProfile,
  Configuration,
  DiscoveryApi,
  EvidenceApi,
  EvidenceEventType,
  KeyAccessOperation,
  OptionalArtifactProfile,
  ProtectionApi,
  ProtectionOperation,
  RegistrationApi,
} from "./index";

declare const process: { readonly env: Record<string, string>; readonly stdout: { write(text: string): void } };

const configuration = new Configuration({ basePath: process.env.SVC_URL, accessToken: process.env.SVC_TOKEN });
const workload = { application: "payroll-export" };
const resource = { kind: "customer-record", id: "cust-8841" };
const digest = "sha256:b708024be3c0ff4bf267993b6c34f05f91a6dc85090254075e1a664a66e27ec0";

const discovery = new DiscoveryApi(configuration);
const protection = new ProtectionApi(configuration);
const capabilities = await discovery.getCapabilities();
const whoAmI = await discovery.whoAmI();
const bootstrap = await discovery.getBootstrap();
const plan = await protection.planProtection({
  planProtectionRequest: {
    operation: ProtectionOperation.Protect,
    workload,
    resource,
    preferredArtifactProfile: OptionalArtifactProfile.Envelope,
    contentDigest: digest,
  },
});
const policy = await protection.resolvePolicy({
  resolvePolicyRequest: { operation: ProtectionOperation.Protect, workload, resource },
});
const key = await protection.planKeyAccess({
  planKeyAccessRequest: { operation: KeyAccessOperation.Wrap, workload, resource },
});
const registration = await new RegistrationApi(configuration).registerArtifact({
  registerArtifactRequest: {
    operation: ProtectionOperation.Protect,
    workload,
    resource,
    artifactProfile: ArtifactProfile.Envelope,
    artifactDigest: digest,
    decisionId: plan.decision.decisionId,
  },
});
const evidence = await new EvidenceApi(configuration).recordEvidence({
  recordEvidenceRequest: {
    eventType: EvidenceEventType.Protect,
    workload,
    resource,
    artifactDigest: digest,
    decisionId: plan.decision.decisionId,
    occurredAt: new Date("2026-03-01T12:00:00Z"),
  },
});
process.stdout.write(
  JSON.stringify({
    routes: capabilities.routes.length,
    tenant: whoAmI.caller.tenantId,
    plaintext_to_platform: bootstrap.plaintextToPlatform,
    allow: [plan.decision.allow, policy.decision.allow, key.decision.allow],
    registered: registration.registration.accepted,
    ingested: evidence.ingestion.accepted,
  }),
);
