/**
 * The examples of the document: a payroll export protects a customer record. Members that name the service and scopes are
 * empty: each deployment has its own (`src/portal/documents.ts`).
 */
import type { JsonObject } from "../../src/base/json.ts";
import { artifactProfiles, protectionOperations, type SdkRoute } from "../../src/base/vocabulary.ts";
import { plaintextTransport, warnings } from "../../src/domain/answer.ts";
import { platformDomainNames } from "../../src/domain/platform-domains.ts";
import { routes } from "../../src/domain/routes.ts";

/** An example of a request and its answer. */
export interface RouteExample {
  /** Name within the route, in snake_case. */
  readonly name: string;
  /** What happens, in one sentence. */
  readonly summary: string;
  /** Body to send; absent on GET. */
  readonly request?: JsonObject;
  readonly answer: JsonObject;
}

const workload = { application: "payroll-export", environment: "production", component: "nightly-writer" };
const resource = { kind: "customer-record", id: "cust-8841", mime_type: "application/pdf" };
const declared = { purpose: "quarterly-audit", labels: ["confidential"], attributes: { region: "eu" } };

const contentDigest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const decisionId = "01953c5e-8f4e-7539-908b-079e7bb06c40";
const policyRevision = "sha256:d70c2c0513bbab369bd54ee7d2920e2fd33f6542878de65676c354c91e2db560";

/** A brief receipt: the record's place in the tenant's log, and the proof of it. */
const receipt = {
  record_id: decisionId,
  log_origin: "logs.example.com/evidence/4a1e6fb3eb361aafca70fd8ea21590cb",
  leaf_index: 1,
  tree_size: 2,
  leaf_hash: "/hBswJXmJGTDVZeEf16rvnbE+zK/W9niJqJGP5WLMXg=",
  proof:
    "c2sp.org/tlog-proof@v1\nindex 1\n94UxykGrPVYVDHIVOpYCbMZd68AjChEq7E10EcotuIE=\n\n" +
    "logs.example.com/evidence/4a1e6fb3eb361aafca70fd8ea21590cb\n2\nFfwHV3gi7akwZ35mC9qxou2cVNyo+2H9rVJ5CxB/ncg=\n\n" +
    "— logs.example.com/evidence/4a1e6fb3eb361aafca70fd8ea21590cb " +
    "HxGPJhPt3CXuRXoTkXpJf1nBUPFncpJnty4FBJLD1xizma8vjUk3hiPy2jKX+ASbYtycC/cNEbzLTLBcFd3xMKaIzQY=\n",
};

/** A protected artifact, with its digest and the CID derived from it. */
const artifact = {
  base64: "VERGMyBzZWFsZWQgcGF5bG9hZCBvZiBjdXN0LTg4NDEK",
  digest: "sha256:b708024be3c0ff4bf267993b6c34f05f91a6dc85090254075e1a664a66e27ec0",
  cid: "bafkreifxbabexy6a75f7ez4zhnwdj4c7sgtnzbijajkaoxq2mzfgnyt6ya",
};

/** `request_summary` of the workload, resource and declarations above. */
const summarized = {
  workload_application: workload.application,
  workload_environment: workload.environment,
  workload_component: workload.component,
  resource_kind: resource.kind,
  resource_id: resource.id,
  mime_type: resource.mime_type,
  purpose: declared.purpose,
  label_count: 1,
  attribute_count: 1,
};

/** `service`, `status` and `caller`, with which every answer starts. */
function head(status: "ready" | "ok"): JsonObject {
  return {
    service: "",
    status,
    caller: {
      tenant_id: "tenant-a",
      principal_id: "payroll-service",
      subject: "client-7f3a",
      auth_source: "bearer_token",
      scopes: [],
    },
  };
}

const reasons: Readonly<Record<(typeof platformDomainNames)[number], string>> = {
  discovery: "Discovery answers from the running configuration.",
  identity: "Access tokens are verified.",
  policy: `Policy revision ${policyRevision} is in force.`,
  protection: "Protection is decided by policy and recorded.",
  key_access: "Key use is authorized; 1 key reference pattern is managed.",
  artifact_registry: "Registrations of artifact metadata are recorded on the ledger.",
  evidence_ledger: "Records are written to the evidence ledger before they are answered.",
};

const platformDomains = platformDomainNames.map((domain) => ({
  domain,
  configured: true,
  reason: reasons[domain],
}));

/** An answer of a route that decides or records. */
function answered(members: JsonObject, warned: readonly string[] = []): JsonObject {
  return { ...head("ready"), ...members, platform_domains: platformDomains, warnings: warned };
}

const authentication = {
  auth_mode: "bearer_token",
  auth_configuration: {
    mode: "oauth_client_credentials",
    proof_of_possession: "mtls",
    oidc_issuer: "https://issuer.example/realms/platform",
    oidc_audience: "api://svc-platform-api",
    oidc_issuer_ready: true,
    mtls_ready: true,
  },
};

const capabilities: readonly RouteExample[] = [
  {
    name: "capabilities",
    summary: "What a workload reads at start-up.",
    answer: {
      ...head("ready"),
      ...authentication,
      default_required_scopes: [],
      routes: routes.map(({ path, domain }) => ({
        route: path,
        domain,
        configured: true,
        required_scopes: [],
      })),
    },
  },
];

const whoami: readonly RouteExample[] = [
  { name: "caller", summary: "The caller, as its token names it.", answer: head("ok") },
];

const bootstrap: readonly RouteExample[] = [
  {
    name: "bootstrap",
    summary: "A deployment that supports every operation and profile.",
    answer: {
      ...head("ready"),
      ...authentication,
      enforcement_model: "embedded_local_library",
      plaintext_to_platform: false,
      policy_resolution_mode: "metadata_only_control_plane",
      supported_operations: protectionOperations,
      supported_artifact_profiles: artifactProfiles,
      platform_domains: platformDomains,
    },
  },
];

const proposal = { workload, resource, content_digest: contentDigest, content_size_bytes: 48213, ...declared };
const proposed = { ...summarized, content_digest_present: true, content_size_bytes: 48213 };

function decided(allow: boolean, ...reasons: string[]): JsonObject {
  return {
    allow,
    required_scopes: [],
    decision_id: decisionId,
    policy_revision: policyRevision,
    reasons,
    obligations: [],
    receipt,
  };
}

const planned = {
  local_enforcement_library: "sdk_embedded_library",
  send_plaintext_to_platform: false,
  artifact_profile: "tdf",
  key_strategy: "local_content_key",
  policy_resolution: "metadata_only_control_plane",
};

const protectionPlan: readonly RouteExample[] = [
  {
    name: "allowed",
    summary: "A record may be protected, in the workload's own process.",
    request: { operation: "protect", preferred_artifact_profile: "tdf", ...proposal },
    answer: answered({
      request_summary: { operation: "protect", preferred_artifact_profile: "tdf", ...proposed },
      decision: {
        ...decided(true, "platform/data-operations", "tenant/ordinary-work"),
        handling_mode: "local_embedded_enforcement",
        plaintext_transport: plaintextTransport,
      },
      execution: {
        ...planned,
        protect_locally: true,
        send_only: ["artifact_cid", "artifact_digest", "artifact_kind", "artifact_profile", "decision_id"],
      },
    }),
  },
  {
    name: "denied",
    summary: "Policy denies: an answer like any other, with `decision.allow` false.",
    request: { operation: "protect", preferred_artifact_profile: "tdf", ...proposal, labels: ["do-not-export"] },
    answer: answered(
      {
        request_summary: { operation: "protect", preferred_artifact_profile: "tdf", ...proposed },
        decision: {
          ...decided(false, "platform/do-not-export"),
          handling_mode: "local_embedded_enforcement",
          plaintext_transport: plaintextTransport,
        },
        execution: {
          ...planned,
          protect_locally: false,
          send_only: ["decision_id", "event_type", "occurred_at", "outcome"],
        },
      },
      ["data labelled do-not-export stays in the system that holds it"],
    ),
  },
];

const policyResolve: readonly RouteExample[] = [
  {
    name: "access",
    summary: "How to handle a record that is to be read.",
    request: { operation: "access", ...proposal },
    answer: answered({
      request_summary: { operation: "access", ...proposed },
      decision: {
        ...decided(true, "platform/data-operations", "tenant/ordinary-work"),
        enforcement_mode: "local_embedded_enforcement",
        policy_inputs: ["attributes.region", "caller.tenant_id", "labels", "purpose", "workload.environment"],
        required_actions: [],
      },
      handling: {
        protect_locally: true,
        plaintext_transport: plaintextTransport,
        bind_policy_to: ["artifact_digest", "content_digest"],
        evidence_expected: ["access"],
      },
    }),
  },
];

const keyAccessPlan: readonly RouteExample[] = [
  {
    name: "managed_key",
    summary: "A content key may be wrapped under a key that a key management service holds.",
    request: {
      operation: "wrap",
      workload,
      resource,
      artifact_profile: "tdf",
      key_reference: "kms://tenant-a/keys/42",
      ...declared,
    },
    answer: answered(
      {
        request_summary: {
          ...summarized,
          operation: "wrap",
          artifact_profile: "tdf",
          key_reference_present: true,
          content_digest_present: false,
        },
        decision: {
          ...decided(true, "platform/key-binding", "tenant/ordinary-work"),
          operation: "wrap",
          key_reference_present: true,
        },
        execution: {
          local_cryptographic_operation: true,
          platform_role: "authorize_only",
          send_plaintext_to_platform: false,
          send_only: ["artifact_digest", "artifact_profile", "decision_id", "key_reference"],
          artifact_profile: "tdf",
          authorization_strategy: "policy_decision",
          key_transport: {
            mode: "wrapped_key_reference",
            key_material_origin: "kms",
            stable_key_reference_preferred: true,
            raw_key_delivery_forbidden: true,
          },
        },
      },
      [warnings.noContentDigest],
    ),
  },
];

const registered = {
  required_scopes: [],
  artifact_transport: "metadata_only",
  send_plaintext_to_platform: false,
};
const named = {
  operation: "protect",
  artifact_kind: "data_object",
  artifact_profile: "tdf",
  artifact_digest: artifact.digest,
};

const artifactRegister: readonly RouteExample[] = [
  {
    name: "by_object",
    summary: "The artifact comes along, so that its CID is derived from it.",
    request: { ...named, workload, resource, artifact_object_b64: artifact.base64, ...declared },
    answer: answered({
      request_summary: {
        ...summarized,
        ...named,
        artifact_cid: artifact.cid,
        artifact_locator_present: false,
        decision_id_present: false,
        key_reference_present: false,
      },
      registration: {
        accepted: true,
        ...registered,
        catalog_actions: ["record_artifact_metadata", "derive_artifact_cid"],
        evidence_expected: ["protect"],
        receipt,
      },
    }),
  },
  {
    name: "unknown_decision",
    summary: "A decision is cited that this tenant does not have: recorded, and not accepted.",
    request: { ...named, workload, resource, decision_id: decisionId, ...declared },
    answer: answered(
      {
        request_summary: {
          ...summarized,
          ...named,
          artifact_locator_present: false,
          decision_id_present: true,
          key_reference_present: false,
        },
        registration: { accepted: false, ...registered, catalog_actions: [], evidence_expected: ["deny"], receipt },
      },
      ["decision_id names no decision that is known for this tenant"],
    ),
  },
];

const happened = {
  event_type: "protect",
  artifact_kind: "data_object",
  artifact_profile: "tdf",
  outcome: "completed",
  occurred_at: "2026-03-01T12:00:00Z",
};

const evidence: readonly RouteExample[] = [
  {
    name: "protected",
    summary: "A record was protected.",
    request: { ...happened, workload, resource, artifact_digest: artifact.digest, ...declared },
    answer: answered({
      request_summary: { ...summarized, ...happened, artifact_digest_present: true, decision_id_present: false },
      ingestion: {
        accepted: true,
        required_scopes: [],
        plaintext_transport: plaintextTransport,
        send_only: [
          "event_type",
          "workload",
          "resource",
          "artifact_profile",
          "artifact_digest",
          "artifact_cid",
          "decision_id",
          "outcome",
          "occurred_at",
        ],
        correlate_by: ["artifact_digest", "resource.id"],
        receipt,
      },
    }),
  },
];

export const routeExamples: Readonly<Record<SdkRoute, readonly RouteExample[]>> = {
  capabilities,
  whoami,
  bootstrap,
  "protection-plan": protectionPlan,
  "policy-resolve": policyResolve,
  "key-access-plan": keyAccessPlan,
  "artifact-register": artifactRegister,
  evidence,
};
