/** What several answers contain: the members of decisions, one proof for a whole call, and warnings. */
import { formatBase64 } from "../base/text-forms.ts";
import { eventOutcomes } from "../base/vocabulary.ts";
import { parseCid } from "../ledger/artifacts/cid.ts";
import { digestOddities } from "../ledger/artifacts/digest.ts";
import type { Ledger, Receipt } from "../ledger/ports/ledger.ts";
import { checkpointOfProof } from "../ledger/tlog/tlog-proof.ts";
import type { Guidance } from "../policy/model/decision.ts";
import type { CitationResult } from "./citation.ts";
import type { Decided } from "./decision.ts";
import type { PolicyResolveRequest } from "./requests.ts";

/** Every `plaintext_transport`: plaintext stays with the caller. */
export const plaintextTransport = "forbidden_by_default";

export type DecisionMembers = ReturnType<typeof decisionMembers>;

export function decisionMembers(decided: Decided) {
  const { allow, requiredScopes, decisionId, policyRevision, reasons, obligations, receipt } = decided;
  return { allow, requiredScopes, decisionId, policyRevision, reasons, obligations, receipt };
}

// One proof for the records of a whole call.

export type ProvingLedger = Pick<Ledger, "multiProof">;

/**
 * Proves records of one tenant in the largest of their trees. Records of earlier commits, such as those of a retry, are
 * in that tree as well: logs only grow.
 *
 * @returns the signed checkpoint of the tree, and the nodes of the proof in base64; undefined if there are none
 * @throws ServiceError `store_unavailable`, `internal`
 */
export async function proveRange(ledger: ProvingLedger, receipts: readonly Receipt[]) {
  const [first, ...others] = receipts;
  if (first === undefined) return undefined;
  const newest = others.reduce((most, receipt) => (receipt.treeSize > most.treeSize ? receipt : most), first);
  const { logOrigin, treeSize } = newest;
  const leaves = [...new Set(receipts.map(({ leafIndex }) => leafIndex))].sort((a, b) => a - b);
  const nodes = await ledger.multiProof(logOrigin, treeSize, leaves);
  return { logOrigin, treeSize, checkpoint: checkpointOfProof(newest.proof), nodes: nodes.map(formatBase64) };
}

// Texts of all warnings. They name members of the request and never repeat a value: labels, attributes, references,
// locators and identifiers may be confidential.

export const warnings = {
  noContentDigest: "content_digest is absent: the decision is not bound to particular content",
  profileOverridden: "policy replaced the requested artifact profile: use the one in execution.artifact_profile",
  locatorStripped:
    "artifact_locator carried user information, a query string or a fragment: it was removed before recording",
  outranked:
    "another principal registered the artifact before: this registration is recorded, and changes nothing " +
    "that policies know of it; it would if it cited an allowed rewrap of the artifact",
  occurredInFuture: "occurred_at is more than 5 minutes in the future",
  unknownOutcome: `outcome is not one of ${eventOutcomes.join(", ")}: it is kept as sent, and does not count as done`,
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

/** Warnings on the content and the artifact that a question names, and those of the decision. */
export function decisionWarnings(
  { content_digest, artifact_digest, artifact_cid }: Named,
  { artifact_profile_overridden: isOverridden, warnings: ofPolicy }: Guidance,
): readonly string[] {
  return [
    ...(content_digest === undefined ? [warnings.noContentDigest] : digestWarnings("content_digest", content_digest)),
    ...digestWarnings("artifact_digest", artifact_digest),
    ...cidWarnings("artifact_cid", artifact_cid),
    // A policy-resolve request names no profile, so none is replaced.
    ...(isOverridden ? [warnings.profileOverridden] : []),
    ...ofPolicy,
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
