/**
 * Texts of all warnings. They name members of the request and never repeat a value: labels, attributes, references,
 * locators and identifiers may be confidential.
 */
import { eventOutcomes } from "../base/vocabulary.ts";
import { parseCid } from "../ledger/artifacts/cid.ts";
import { digestOddities } from "../ledger/artifacts/digest.ts";
import type { CitationResult } from "./citation.ts";
import type { PolicyResolveRequest } from "./requests.ts";

export const warnings = {
  noContentDigest: "content_digest is absent: the decision is not bound to particular content",
  profileOverridden: "policy replaced the requested artifact profile: use the one in execution.artifact_profile",
  locatorStripped:
    "artifact_locator carried user information, a query string or a fragment: it was removed before recording",
  outranked:
    "the artifact is another principal's, who registered it before: this registration is recorded, and changes nothing " +
    "that policies know of it; it would if it cited an allowed rewrap of the artifact",
  occurredInFuture: "occurred_at is more than 5 minutes in the future",
  unknownOutcome: `outcome is none of ${eventOutcomes.join(", ")}: it is kept as sent, and says of nothing that it was done`,
  noArtifactIdentity:
    "the event names neither a matching decision nor an artifact: it cannot be linked to other records",
  unparsableCid: (field: string) => `${field} is not a CID that can be parsed: it is kept as sent`,
  notCompared: (field: string) => `${field} uses a hash function that is not computed here: it was not compared`,
} as const;

/** Warnings on a digest; none if it is absent or has no problem. */
export function digestWarnings(field: string, digest: string | undefined): readonly string[] {
  if (digest === undefined) return [];
  return digestOddities(digest).map((oddity) =>
    oddity === "weak"
      ? `${field} uses a hash function that is no longer collision resistant`
      : `${field} is not hexadecimal of the length that its algorithm has: it is kept as sent`,
  );
}

/** Warnings on the content and the artifact that a question names. */
export function namedWarnings({ content_digest, artifact_digest, artifact_cid }: Named): readonly string[] {
  return [
    ...(content_digest === undefined ? [warnings.noContentDigest] : digestWarnings("content_digest", content_digest)),
    ...digestWarnings("artifact_digest", artifact_digest),
    ...cidWarnings("artifact_cid", artifact_cid),
  ];
}

type Named = Pick<PolicyResolveRequest, "content_digest" | "artifact_digest" | "artifact_cid">;

export function cidWarnings(field: string, cid: string | undefined): readonly string[] {
  return cid === undefined || parseCid(cid) !== undefined ? [] : [warnings.unparsableCid(field)];
}

const citations: Readonly<Record<CitationResult, string | undefined>> = {
  matched: undefined,
  none: undefined,
  unknown: "decision_id names no decision that is known for this tenant",
  mismatch: "decision_id names a decision about another principal, resource, artifact profile or operation",
  denied: "decision_id names a decision that denied the operation",
  expired: "decision_id names a decision that is too old to be cited",
  erased: "decision_id names a record that was erased",
};

export function citationWarnings(result: CitationResult): readonly string[] {
  const text = citations[result];
  return text === undefined ? [] : [text];
}
