/** Makes all eight calls with the client that OpenAPI Generator makes for TypeScript. Prints one JSON object. */
import {
  Configuration,
  DiscoveryApi,
  EvidenceApi,
  PlanKeyAccessRequestFromJSON,
  PlanProtectionRequestFromJSON,
  ProtectionApi,
  RecordEvidenceRequestFromJSON,
  RegisterArtifactRequestFromJSON,
  RegistrationApi,
  ResolvePolicyRequestFromJSON,
} from "./index";

declare const process: { readonly env: Record<string, string>; readonly stdout: { write(text: string): void } };

const samples = JSON.parse(process.env.SAMPLES ?? "");
const configuration = new Configuration({
  basePath: process.env.PLATFORM_URL,
  accessToken: process.env.PLATFORM_TOKEN,
});
const discovery = new DiscoveryApi(configuration);
const protection = new ProtectionApi(configuration);
const capabilities = await discovery.getCapabilities();
const whoAmI = await discovery.whoAmI();
const bootstrap = await discovery.getBootstrap();
const plan = await protection.planProtection({ planProtectionRequest: PlanProtectionRequestFromJSON(samples.plan) });
const policy = await protection.resolvePolicy({ resolvePolicyRequest: ResolvePolicyRequestFromJSON(samples.policy) });
const key = await protection.planKeyAccess({ planKeyAccessRequest: PlanKeyAccessRequestFromJSON(samples.key) });
const { decisionId } = plan.decision;
const registration = await new RegistrationApi(configuration).registerArtifact({
  registerArtifactRequest: { ...RegisterArtifactRequestFromJSON(samples.artifact), decisionId },
});
const evidence = await new EvidenceApi(configuration).recordEvidence({
  recordEvidenceRequest: { ...RecordEvidenceRequestFromJSON(samples.event), decisionId },
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
