import type { SdkRoute } from "../../../base/vocabulary.ts";
import { plaintextTransport } from "../../../domain/answer.ts";
import { bootstrap, capabilities, whoami } from "./discovery.ts";
import { keyAccessPlan, policyResolve, protectionPlan } from "./protection.ts";
import {
  artifact,
  decisionId,
  declared,
  head,
  platformDomains,
  type RouteExamples,
  receipt,
  resource,
  summarized,
  workload,
} from "./world.ts";

export const artifactRegister: RouteExamples = (world) => {
  const registered = {
    required_scopes: world.scopes.required("artifact-register"),
    artifact_transport: "metadata_only",
    send_plaintext_to_platform: false,
  };
  const named = {
    operation: "protect",
    artifact_kind: "data_object",
    artifact_profile: "tdf",
    artifact_digest: artifact.digest,
  };
  return [
    {
      name: "by_object",
      summary: "The artifact comes along, so that its CID is derived from it.",
      request: { ...named, workload, resource, artifact_object_b64: artifact.base64, ...declared },
      answer: {
        ...head(world),
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
        platform_domains: platformDomains,
        warnings: [],
      },
    },
    {
      name: "unknown_decision",
      summary: "A decision is cited that this tenant does not have: recorded, and not accepted.",
      request: { ...named, workload, resource, decision_id: decisionId, ...declared },
      answer: {
        ...head(world),
        request_summary: {
          ...summarized,
          ...named,
          artifact_locator_present: false,
          decision_id_present: true,
          key_reference_present: false,
        },
        registration: { accepted: false, ...registered, catalog_actions: [], evidence_expected: ["deny"], receipt },
        platform_domains: platformDomains,
        warnings: ["decision_id names no decision that is known for this tenant"],
      },
    },
  ];
};

export const evidence: RouteExamples = (world) => {
  const happened = {
    event_type: "protect",
    artifact_kind: "data_object",
    artifact_profile: "tdf",
    outcome: "completed",
    occurred_at: "2026-03-01T12:00:00Z",
  };
  return [
    {
      name: "protected",
      summary: "A record was protected.",
      request: { ...happened, workload, resource, artifact_digest: artifact.digest, ...declared },
      answer: {
        ...head(world),
        request_summary: { ...summarized, ...happened, artifact_digest_present: true, decision_id_present: false },
        ingestion: {
          accepted: true,
          required_scopes: world.scopes.required("evidence"),
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
        platform_domains: platformDomains,
        warnings: [],
      },
    },
  ];
};

export const routeExamples: Readonly<Record<SdkRoute, RouteExamples>> = {
  capabilities,
  whoami,
  bootstrap,
  "protection-plan": protectionPlan,
  "policy-resolve": policyResolve,
  "key-access-plan": keyAccessPlan,
  "artifact-register": artifactRegister,
  evidence,
};
