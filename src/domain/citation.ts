/** Checks the decision that a registration or an event cites. */
import type { Caller } from "../base/caller.ts";
import { parseRecordId, recordIdTimeMs } from "../base/ids.ts";
import { type JsonObject, objectOf, textsOf } from "../base/json.ts";
import { type Span, traced } from "../base/trace.ts";
import { type ArtifactProfile, type EvidenceEventType, evaluationPath } from "../base/vocabulary.ts";
import { artifactNames } from "../ledger/artifacts/registrations.ts";
import type { StoredRecord } from "../ledger/ports/record.ts";
import { reliedOnIds } from "../ledger/search/summary.ts";
import type { PolicyAction } from "../policy/model/decision.ts";
import { type DomainDependencies, servedOperation } from "./deployment.ts";
import { routePath } from "./routes.ts";

/** Recorded with the registration or event; lineage counts only `matched`. `erased`: nothing can be checked. */
export type CitationResult = "matched" | "none" | "unknown" | "mismatch" | "denied" | "expired" | "erased";

export interface Citation {
  readonly result: CitationResult;
  /** Evidence that a matched decision expects. */
  readonly evidenceExpected?: readonly string[];
  /** If a matched decision is about a rewrap: the names of its artifact, see `artifactNames`. */
  readonly rewraps?: readonly string[];
}

export interface Citing {
  readonly decision_id?: string;
  readonly resource: { readonly kind: string; readonly id?: string };
  readonly artifact_profile?: ArtifactProfile;
  /** The operation that was carried out; `deny` if one was refused. */
  readonly operation: EvidenceEventType;
}

type Checking = Pick<DomainDependencies, "deployment" | "ledger" | "clock">;

/**
 * Looks up the cited decision and compares. A decision of another tenant is `unknown`, exactly like one that does not
 * exist. A decision of another caller is a `mismatch` before anything else is reported; so is a decision that the
 * caller requested on behalf of another subject, because the caller does not have that subject's rights.
 *
 * @throws ServiceError `store_unavailable`
 */
export async function cite(checking: Checking, caller: Caller, citing: Citing, span?: Span): Promise<Citation> {
  if (citing.decision_id === undefined) return { result: "none" };
  const id = parseRecordId(citing.decision_id);
  const found =
    id === undefined ? "unknown" : await traced(span, "ledger.find", () => checking.ledger.find(caller.tenantId, id));
  if (found === "erased") return { result: "erased" };
  if (found === "unknown" || found.kind !== "decision") return { result: "unknown" };
  const result = compare(checking, caller, citing, found);
  if (result !== "matched") return { result };
  const evidenceExpected = textsOf(guidanceOf(found).evidence_expected);
  return { result, evidenceExpected, ...(citing.operation === "rewrap" && { rewraps: rewrappedBy(found) }) };
}

/** Names of the decision's artifact; none if several names may be of different artifacts. */
function rewrappedBy({ request, outcome }: StoredRecord): readonly string[] {
  const names = artifactNames(request);
  return names.length < 2 || (reliedOnIds(outcome)?.length ?? 0) > 0 ? names : [];
}

function compare(
  { deployment, clock }: Checking,
  caller: Caller,
  citing: Citing,
  decision: StoredRecord,
): CitationResult {
  const isOwn = decision.caller.principal_id === caller.principalId && !Object.hasOwn(decision.request, "on_behalf_of");
  if (!isOwn || !isSameResource(citing, decision) || !isSameProfile(citing, decision)) return "mismatch";
  const isDenial = decision.outcome.allow !== true;
  if (citing.operation === "deny") {
    if (!isDenial) return "mismatch";
  } else {
    // A rewrap of a key or of data serves the operation `rewrap` on every route.
    if (servedOperation[decision.request.operation as PolicyAction] !== citing.operation) return "mismatch";
    if (isDenial) return "denied";
  }
  // If the clock is behind the newest record, `recorded_at` repeats that record's time; the id has the clock's time.
  const ageMs = clock.now() - Math.min(Date.parse(decision.recorded_at), recordIdTimeMs(decision.record_id));
  return ageMs > deployment.decisionMaxAgeSeconds * 1000 ? "expired" : "matched";
}

function isSameResource({ resource }: Citing, decision: StoredRecord): boolean {
  const decided = objectOf(decision.request.resource);
  return decided.kind === resource.kind && decided.id === resource.id;
}

/**
 * The profile of a decision is the one that the answer named, which policy may have chosen instead of the requested
 * one. `policy-resolve` and the AuthZEN routes name none.
 */
function isSameProfile({ artifact_profile }: Citing, decision: StoredRecord): boolean {
  const tellsNone = decision.route === routePath("policy-resolve") || decision.route === evaluationPath;
  if (artifact_profile === undefined || tellsNone) return true;
  return guidanceOf(decision).artifact_profile === artifact_profile;
}

function guidanceOf(decision: StoredRecord): JsonObject {
  return objectOf(decision.outcome.guidance);
}
