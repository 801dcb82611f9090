import type { JsonObject } from "../../../base/json.ts";
import type { SdkRoute } from "../../../base/vocabulary.ts";
import { plaintextTransport } from "../../../domain/answer.ts";
import { warnings } from "../../../domain/warnings.ts";
import {
  contentDigest,
  decisionId,
  declared,
  head,
  platformDomains,
  policyRevision,
  type RouteExamples,
  receipt,
  resource,
  summarized,
  type World,
  workload,
} from "./world.ts";

const proposal = { workload, resource, content_digest: contentDigest, content_size_bytes: 48213, ...declared };
const proposed = { ...summarized, content_digest_present: true, content_size_bytes: 48213 };

function decided(world: World, route: SdkRoute, allow: boolean, ...reasons: string[]): JsonObject {
  return {
    allow,
    required_scopes: world.scopes.required(route),
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

export const protectionPlan: RouteExamples = (world) => [
  {
    name: "allowed",
    summary: "A record may be protected, in the workload's own process.",
    request: { operation: "protect", preferred_artifact_profile: "tdf", ...proposal },
    answer: {
      ...head(world),
      request_summary: { operation: "protect", preferred_artifact_profile: "tdf", ...proposed },
      decision: {
        ...decided(world, "protection-plan", true, "platform/data-operations", "tenant/ordinary-work"),
        handling_mode: "local_embedded_enforcement",
        plaintext_transport: plaintextTransport,
      },
      execution: {
        ...planned,
        protect_locally: true,
        send_only: ["artifact_cid", "artifact_digest", "artifact_kind", "artifact_profile", "decision_id"],
      },
      platform_domains: platformDomains,
      warnings: [],
    },
  },
  {
    name: "denied",
    summary: "Policy denies: an answer like any other, with `decision.allow` false.",
    request: { operation: "protect", preferred_artifact_profile: "tdf", ...proposal, labels: ["do-not-export"] },
    answer: {
      ...head(world),
      request_summary: { operation: "protect", preferred_artifact_profile: "tdf", ...proposed },
      decision: {
        ...decided(world, "protection-plan", false, "platform/do-not-export"),
        handling_mode: "local_embedded_enforcement",
        plaintext_transport: plaintextTransport,
      },
      execution: {
        ...planned,
        protect_locally: false,
        send_only: ["decision_id", "event_type", "occurred_at", "outcome"],
      },
      platform_domains: platformDomains,
      warnings: ["data labelled do-not-export stays in the system that holds it"],
    },
  },
];

export const policyResolve: RouteExamples = (world) => [
  {
    name: "access",
    summary: "How to handle a record that is to be read.",
    request: { operation: "access", ...proposal },
    answer: {
      ...head(world),
      request_summary: { operation: "access", ...proposed },
      decision: {
        ...decided(world, "policy-resolve", true, "platform/data-operations", "tenant/ordinary-work"),
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
      platform_domains: platformDomains,
      warnings: [],
    },
  },
];

export const keyAccessPlan: RouteExamples = (world) => [
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
    answer: {
      ...head(world),
      request_summary: {
        ...summarized,
        operation: "wrap",
        artifact_profile: "tdf",
        key_reference_present: true,
        content_digest_present: false,
      },
      decision: {
        ...decided(world, "key-access-plan", true, "platform/key-binding", "tenant/ordinary-work"),
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
      platform_domains: platformDomains,
      warnings: [warnings.noContentDigest],
    },
  },
];
