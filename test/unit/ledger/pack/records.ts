/** Records as the service makes them, for lineages. */
import type { NewRecord } from "../../../../src/ledger/ports/record.ts";

type Changes = Partial<NewRecord>;
interface Named {
  readonly digest?: string;
  readonly cid?: string;
  readonly decision?: string;
  readonly citation?: string;
}

const resource = { kind: "file", id: "f1" };

export function decision(allow: boolean, operation = "protect"): Changes {
  return {
    kind: "decision",
    request: { operation, resource },
    outcome: { allow, policy_revision: "sha256:0123", reasons: [] },
    policyRevision: "sha256:0123",
  };
}

export function registration({ digest = "sha256:a", cid, decision: cited, citation }: Named): Changes {
  const result = citation ?? (cited === undefined ? "none" : "matched");
  return {
    kind: "registration",
    route: "/v1/sdk/artifact-register",
    request: { operation: "protect", resource, artifact_digest: digest, artifact_cid: cid, decision_id: cited },
    outcome: { accepted: result === "matched" || result === "none", citation: result, artifact_cid: cid },
    policyRevision: undefined as never,
  };
}

export function evidence(
  event: string,
  { digest, cid, decision: cited, citation }: Named,
  outcome = "completed",
): Changes {
  return {
    kind: "evidence",
    route: "/v1/sdk/evidence",
    request: {
      event_type: event,
      resource,
      artifact_digest: digest,
      artifact_cid: cid,
      decision_id: cited,
      outcome,
    },
    outcome: { accepted: true, citation: citation ?? (cited === undefined ? "none" : "matched") },
    policyRevision: undefined as never,
  };
}
