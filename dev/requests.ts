/** One realistic request for each route, in the order in which a workload would make them. */

const workload = { application: "payroll-export", environment: "production", component: "nightly-writer" };
const resource = { kind: "customer-record", id: "cust-8841", mime_type: "application/pdf" };
const declared = { purpose: "quarterly-audit", labels: ["confidential"], attributes: { region: "eu" } };
const contentDigest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const artifactDigest = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

/** A route and a request for it. */
export interface SampleCall {
  readonly route: string;
  /** Full name of the method on gRPC, gRPC-Web and Connect. */
  readonly rpc: string;
  /** Body on the JSON route; absent on GET. */
  readonly body?: Readonly<Record<string, unknown>>;
}

/** The eight calls. `decisionId` is cited by the calls that may cite one. */
export function sampleCalls(decisionId?: string): readonly SampleCall[] {
  const cited = decisionId === undefined ? {} : { decision_id: decisionId };
  return [
    { route: "/v1/sdk/capabilities", rpc: "platform.sdk.v1.DiscoveryService/GetCapabilities" },
    { route: "/v1/sdk/whoami", rpc: "platform.sdk.v1.DiscoveryService/WhoAmI" },
    { route: "/v1/sdk/bootstrap", rpc: "platform.sdk.v1.DiscoveryService/GetBootstrap" },
    {
      route: "/v1/sdk/protection-plan",
      rpc: "platform.sdk.v1.ProtectionService/PlanProtection",
      body: {
        operation: "protect",
        workload,
        resource,
        preferred_artifact_profile: "tdf",
        content_digest: contentDigest,
        content_size_bytes: 48213,
        ...declared,
      },
    },
    {
      route: "/v1/sdk/policy-resolve",
      rpc: "platform.sdk.v1.ProtectionService/ResolvePolicy",
      body: { operation: "access", workload, resource, content_digest: contentDigest, ...declared },
    },
    {
      route: "/v1/sdk/key-access-plan",
      rpc: "platform.sdk.v1.ProtectionService/PlanKeyAccess",
      body: {
        operation: "wrap",
        workload,
        resource,
        artifact_profile: "tdf",
        key_reference: "kms://tenant-a/keys/42",
        ...declared,
      },
    },
    {
      route: "/v1/sdk/artifact-register",
      rpc: "platform.sdk.v1.RegistrationService/RegisterArtifact",
      body: {
        operation: "protect",
        workload,
        resource,
        artifact_kind: "data_object",
        artifact_profile: "tdf",
        artifact_digest: artifactDigest,
        artifact_locator: "s3://archive/2026/cust-8841.tdf",
        ...cited,
        ...declared,
      },
    },
    {
      route: "/v1/sdk/evidence",
      rpc: "platform.sdk.v1.EvidenceService/RecordEvidence",
      body: {
        event_type: "protect",
        workload,
        resource,
        artifact_kind: "data_object",
        artifact_profile: "tdf",
        artifact_digest: artifactDigest,
        outcome: "completed",
        occurred_at: "2026-03-01T12:00:00Z",
        ...cited,
        ...declared,
      },
    },
  ];
}
