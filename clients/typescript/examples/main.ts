/** A workload's day with the platform over gRPC: who am I, what is there, may I, how, and what I did. */
import {
  ArtifactKind,
  ArtifactProfile,
  ConnectError,
  clientCredentials,
  createPlatformClient,
  EvidenceEventType,
  KeyAccessOperation,
  type Obligation,
  type PlatformClient,
  ProtectionOperation,
  problemOf,
  workloadInterceptors,
} from "svc-platform-client";
import { createGrpcTransport, createHttpClient } from "svc-platform-client/node";
import { verifyAnswer } from "svc-platform-client/receipts";
import { describe } from "./describe.ts";
import { readSettings } from "./settings.ts";

const contentDigest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const artifactDigest = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
/** What every request of this workload says of itself. */
const common = {
  workload: { application: "payroll-export", environment: "production", component: "nightly-writer" },
  resource: { kind: "customer-record", id: "cust-8841", mimeType: "application/pdf" },
  purpose: "quarterly-audit",
  labels: ["confidential"],
  attributes: { region: "eu" },
};

/**
 * What this workload does where a decision demands it, by the ids that the operator hands out; false for parameters that
 * it does not know. Requests list all of them: where policy demands another one, the answer is a denial.
 */
const obligations = new Map([
  [
    "log-use",
    ({ audience, ...others }: Obligation["parameters"]): boolean => {
      if (audience === undefined || Object.keys(others).length > 0) return false;
      console.log("obligation log-use: told", audience);
      return true;
    },
  ],
]);

/** Meets what is demanded, before the decision is acted on. */
function meet(demanded: readonly Obligation[]): void {
  for (const { id, parameters } of demanded) {
    if (obligations.get(id)?.(parameters) !== true) throw new Error(`the platform demands ${id}: it cannot be met`);
  }
}

async function run(): Promise<void> {
  const { url, issuer, clientId, clientSecret, scopes, tls, logKey } = readSettings(process.env);
  // The issuer sees the client certificate, and binds the token to it (RFC 8705 §3).
  const http = createHttpClient({ tls });
  const tokens = clientCredentials({ issuer, clientId, clientSecret, http, ...(scopes.length > 0 && { scopes }) });
  // At once, so that credentials that the issuer refuses are known before any call.
  await tokens.token();
  const interceptors = workloadInterceptors({
    tokens,
    retry: {
      // The call's deadline is the bound: a service may take longer to come back than any number of attempts.
      attempts: Number.POSITIVE_INFINITY,
      onRetry: ({ message }, delayMs) => console.error(`${message}; trying again in ${Math.round(delayMs)} ms`),
    },
  });
  const transport = createGrpcTransport({ baseUrl: url, tls, interceptors });
  try {
    const client = createPlatformClient(transport, { deadlineMs: 30_000 });
    await discover(client);
    await record(client, await decide(client), logKey);
  } finally {
    transport.close();
  }
}

async function discover({ discovery }: PlatformClient): Promise<void> {
  const { caller } = await discovery.whoAmI({});
  console.log("whoami", caller?.principalId, "of", caller?.tenantId);
  const { routes } = await discovery.getCapabilities({});
  console.log("capabilities", routes.length, "routes");
  const { enforcementModel } = await discovery.getBootstrap({});
  console.log("bootstrap", enforcementModel);
}

/** Asks for the three decisions; returns the id of the one that the artifact is protected under. */
async function decide({ protection }: PlatformClient): Promise<string> {
  const understoodObligations = [...obligations.keys()];
  const { decision: plan } = await protection.planProtection({
    ...common,
    operation: ProtectionOperation.PROTECT,
    preferredArtifactProfile: ArtifactProfile.TDF,
    contentDigest,
    contentSizeBytes: 48213n,
    understoodObligations,
  });
  console.log("protection-plan allow", plan?.allow, plan?.decisionId);
  const operation = ProtectionOperation.ACCESS;
  const access = { ...common, operation, contentDigest, understoodObligations };
  const { decision: policy } = await protection.resolvePolicy(access);
  console.log("policy-resolve allow", policy?.allow, policy?.decisionId);
  const { decision: key } = await protection.planKeyAccess({
    ...common,
    operation: KeyAccessOperation.WRAP,
    artifactProfile: ArtifactProfile.TDF,
    keyReference: "kms://tenant-a/keys/42",
    understoodObligations,
  });
  console.log("key-access-plan allow", key?.allow, key?.decisionId);
  if (plan?.allow !== true) throw new Error(`the platform denied the operation: ${plan?.reasons.join(", ")}`);
  meet(plan.obligations);
  return plan.decisionId;
}

/** Tells the platform of the artifact that was made locally, and of what happened. */
async function record(client: PlatformClient, decisionId: string, logKey: string | undefined): Promise<void> {
  const artifact = {
    ...common,
    artifactKind: ArtifactKind.DATA_OBJECT,
    artifactProfile: ArtifactProfile.TDF,
    artifactDigest,
    decisionId,
  };
  const { registration } = await client.registration.registerArtifact({
    ...artifact,
    operation: ProtectionOperation.PROTECT,
    artifactLocator: "s3://archive/2026/cust-8841.tdf",
  });
  console.log("artifact-register accepted", registration?.accepted, registration?.receipt?.recordId);
  const event = {
    ...artifact,
    eventType: EvidenceEventType.PROTECT,
    outcome: "completed",
    occurredAt: "2026-03-01T12:00:00Z",
  };
  const recorded = await client.evidence.recordEvidence(event);
  const { ingestion } = recorded;
  console.log("evidence accepted", ingestion?.accepted, ingestion?.receipt?.recordId);
  if (logKey === undefined) return;
  const { leafIndex, logOrigin } = await verifyAnswer(recorded, event, logKey);
  console.log("receipt leaf", leafIndex, "of", logOrigin);
}

await run().catch((error: unknown) => {
  console.error(error instanceof ConnectError ? describe(problemOf(error)) : String(error));
  process.exitCode = 1;
});
