/** Answer of `artifact-register`. */
import { invalidRequest } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { parseCid, rawCid } from "../ledger/artifacts/cid.ts";
import { type HashName, hashOfDigest, isDigestOf } from "../ledger/artifacts/digest.ts";
import { registeredNames } from "../ledger/artifacts/registrations.ts";
import { cidWarnings, citationWarnings, digestWarnings, warnings } from "./answer.ts";
import { type Citation, cite } from "./citation.ts";
import { type DomainDependencies, refuseViolations, unsupported } from "./deployment.ts";
import { platformDomains } from "./platform-domains.ts";
import type { ArtifactHasher } from "./ports.ts";
import { appendOnce, type CallIdentity } from "./record.ts";
import { registeredBefore } from "./registered.ts";
import { type RegistrationRequest, summarize } from "./requests.ts";

export type RegistrationAnswer = Awaited<ReturnType<typeof registerArtifact>>;

export interface RegistrationDependencies extends DomainDependencies {
  readonly hasher: ArtifactHasher;
}

/**
 * Registers. Resolves when the record is durable, even if it is not accepted. The same registration under the same
 * idempotency key is recorded once.
 *
 * @param sent with the locator as sent
 * @param objectBase64 the artifact's bytes, which are hashed and dropped
 * @param signal ends the hashing
 * @throws ServiceError `idempotency_conflict`, `invalid_request`, `overloaded` (too much to hash), `store_unavailable`
 */
export async function registerArtifact(
  dependencies: RegistrationDependencies,
  call: CallIdentity,
  sent: RegistrationRequest,
  objectBase64: string | undefined,
  signal: AbortSignal,
) {
  const { deployment, live, ledger, hasher } = dependencies;
  refuseViolations(unsupported(deployment, sent));
  const { tenantId } = call.caller;
  const derived =
    objectBase64 === undefined ? undefined : await deriveArtifact(hasher, tenantId, sent, objectBase64, signal);
  const request = withSafeLocator(sent);
  const artifact_cid = derived?.cid ?? sent.artifact_cid;
  const names = registeredNames(request, { artifact_cid });
  const [citation, before] = await Promise.all([
    cite(dependencies, call.caller, sent, call.span),
    registeredBefore(ledger, call, names),
  ]);
  const rewraps = names.filter((name) => citation.rewraps?.includes(name));
  const matched = citation.result === "matched";
  const isOutranked = isAccepted(citation) && !before.every((one) => one({ ...call.caller, matched, rewraps }));
  const outcome = {
    accepted: isAccepted(citation),
    artifact_cid,
    artifact_size_bytes: derived?.sizeBytes,
    citation: citation.result,
    // Recorded here, because the decision may be erased before it is read.
    rewraps: rewraps.length > 0 ? rewraps : undefined,
  };
  const prepared = {
    requestSummary: summary(sent, derived),
    registration: registration(deployment.scopes.required("artifact-register"), sent, derived, citation),
    platformDomains: platformDomains(live, tenantId),
    warnings: [...registrationWarnings(sent, request, derived, citation), ...(isOutranked ? [warnings.outranked] : [])],
  };
  // The CID stands for the object, and a locator counts as it is recorded: a retry may have new credentials in it.
  const artifact_locator = sent.artifact_locator && (request.artifact_locator ?? "");
  const payload = { ...sent, artifact_locator, artifact_object: derived?.cid };
  const recorded = { kind: "registration", call, route: "artifact-register", request, outcome } as const;
  const { answer, receipt } = await appendOnce(dependencies, { ...recorded, payload, answer: prepared });
  return { ...answer, registration: { ...answer.registration, receipt } };
}

function isAccepted({ result }: Citation): boolean {
  return result === "matched" || result === "none";
}

/** The request for the record. */
function withSafeLocator(sent: RegistrationRequest): RegistrationRequest {
  const { artifact_locator, ...others } = sent;
  if (artifact_locator === undefined) return sent;
  const stripped = stripLocator(artifact_locator);
  return stripped === "" ? others : { ...others, artifact_locator: stripped };
}

function summary(request: RegistrationRequest, derived: DerivedArtifact | undefined) {
  return {
    ...summarize(request),
    operation: request.operation,
    artifactKind: request.artifact_kind,
    artifactProfile: request.artifact_profile,
    artifactDigest: request.artifact_digest,
    /** Derived from the object if one was sent, else as given. */
    artifactCid: derived?.cid ?? request.artifact_cid,
    artifactMerkleRootCid: request.artifact_merkle_root_cid,
    artifactLocatorPresent: request.artifact_locator !== undefined,
    decisionIdPresent: request.decision_id !== undefined,
    keyReferencePresent: request.key_reference !== undefined,
  };
}

function registration(
  requiredScopes: readonly string[],
  request: RegistrationRequest,
  derived: DerivedArtifact | undefined,
  citation: Citation,
) {
  const accepted = isAccepted(citation);
  const actions = [
    "record_artifact_metadata",
    ...(derived === undefined ? [] : ["derive_artifact_cid"]),
    ...(citation.result === "matched" ? ["link_decision"] : []),
  ];
  return {
    /** False if the cited decision does not match or denied. */
    accepted,
    requiredScopes,
    artifactTransport: "metadata_only",
    sendPlaintextToPlatform: false,
    catalogActions: accepted ? actions : [],
    evidenceExpected: accepted ? (citation.evidenceExpected ?? [request.operation]) : ["deny"],
  };
}

function registrationWarnings(
  sent: RegistrationRequest,
  recorded: RegistrationRequest,
  derived: DerivedArtifact | undefined,
  citation: Citation,
): readonly string[] {
  const { artifact_cid, artifact_merkle_root_cid } = sent;
  return [
    ...digestWarnings("artifact_digest", sent.artifact_digest),
    ...(derived?.warnings ?? cidWarnings("artifact_cid", artifact_cid)),
    ...cidWarnings("artifact_merkle_root_cid", artifact_merkle_root_cid),
    ...(sent.artifact_locator === recorded.artifact_locator ? [] : [warnings.locatorStripped]),
    ...citationWarnings(citation.result),
  ];
}

// Compares the bytes of an artifact with what the caller states about them.

interface DerivedArtifact {
  /** CIDv1, raw, sha2-256, base32. */
  readonly cid: string;
  readonly sizeBytes: number;
  readonly warnings: readonly string[];
}

/**
 * Hashes the object and compares. A CID in any base is compared with the CIDv1 (codec raw) of the bytes; one of another
 * version or codec identifies a structure over them, and is a mismatch. A value with an unsupported hash function is
 * kept with a warning.
 *
 * @throws ServiceError `invalid_request` naming `artifact_digest` or `artifact_cid` if it is not the object's, and
 *   whatever the hasher throws
 */
async function deriveArtifact(
  hasher: ArtifactHasher,
  tenantId: TenantId,
  request: RegistrationRequest,
  objectBase64: string,
  signal: AbortSignal,
): Promise<DerivedArtifact> {
  const { artifact_digest, artifact_cid } = request;
  const digestHash = hashOfDigest(artifact_digest);
  const given = artifact_cid === undefined ? undefined : parseCid(artifact_cid);
  if (artifact_cid !== undefined && given === undefined) throw mismatch("artifact_cid");
  const asked = new Set<HashName>(["sha256"]);
  if (digestHash !== undefined) asked.add(digestHash);
  if (given?.hash !== undefined) asked.add(given.hash);

  const { sizeBytes, digests } = await hasher.digest(tenantId, objectBase64, [...asked], signal);
  const hexOf = (hash: HashName): string => {
    const hex = digests.get(hash);
    if (hex === undefined) throw new Error(`hasher left ${hash} out`);
    return hex;
  };
  if (digestHash !== undefined && !isDigestOf(artifact_digest, hexOf(digestHash))) throw mismatch("artifact_digest");
  // A CID of another codec identifies a structure, which is other content even if the hash is the same.
  if (given !== undefined && !given.isRaw) throw mismatch("artifact_cid");
  if (given?.hash !== undefined && given.hex !== hexOf(given.hash)) throw mismatch("artifact_cid");
  return {
    cid: rawCid(hexOf("sha256")),
    sizeBytes,
    warnings: [
      ...(digestHash === undefined ? [warnings.notCompared("artifact_digest")] : []),
      ...(given !== undefined && given.hash === undefined ? [warnings.notCompared("artifact_cid")] : []),
    ],
  };
}

function mismatch(field: "artifact_digest" | "artifact_cid"): Error {
  return invalidRequest(field, "artifact.mismatch", `${field} is not that of artifact_object_b64`);
}

// Removes credentials from locators, such as `https://user:password@host/`, `…?X-Signature=…`, `…#access_token=…`.
// Works on any text, URL or not, before it is recorded.

/**
 * Returns the locator without user information, query string, fragment and control characters; empty if nothing is
 * left.
 *
 * Works on the text instead of a parsed URL: parsers disagree on what is malformed, and a credential must not survive
 * because one of them gave up. So it removes too much rather than too little:
 * - everything from the first `?` or `#` on, fragments included: presigned links and link-shared keys use them.
 * - everything up to the last `@` (or `%40`) of a possible authority: the first segment, a segment after two or more
 *   slashes (of either kind, anywhere, as in `jdbc:postgresql://user:pw@host/db`) or after `scheme:/`.
 * - an authority that is not `host` or `host:port` afterwards: what follows its colon may be half of a password. Other
 *   `@` are kept: `s3://bucket/jane@example.com.tdf` stays as it is.
 *
 * Idempotent.
 */
export function stripLocator(locator: string): string {
  const bare = removeControls(locator);
  const end = bare.search(/[?#]/);
  const parts = (end === -1 ? bare : bare.slice(0, end)).split(/([\\/]+)/);
  // Segments have even indexes, the slashes between them odd ones.
  for (let i = 0; i < parts.length; i += 2) {
    const segment = parts[i] ?? "";
    if (i === 0) parts[i] = withoutUser(segment);
    else if (isAuthorityPlace(parts, i)) parts[i] = hostOnly(withoutUser(segment));
  }
  return parts.join("").trim();
}

/** URL parsers ignore tabs and line breaks, so they could hide a scheme or a slash from the rules above. */
function removeControls(text: string): string {
  return Array.from(text)
    .filter((character) => character > "\u001f" && character !== "\u007f")
    .join("")
    .trim();
}

function isAuthorityPlace(parts: readonly string[], index: number): boolean {
  const before = parts[index - 2] ?? "";
  const slashes = parts[index - 1] ?? "";
  // The slashes around an empty segment count as one run.
  if (slashes.length > 1 || (before === "" && index > 2)) return true;
  const isDrive = index === 2 && /^[A-Za-z]:$/.test(before);
  return before.endsWith(":") && !isDrive;
}

function withoutUser(segment: string): string {
  const [plain, encoded] = [segment.lastIndexOf("@"), segment.lastIndexOf("%40")];
  const end = Math.max(plain === -1 ? -1 : plain + 1, encoded === -1 ? -1 : encoded + 3);
  return end === -1 ? segment : segment.slice(end);
}

/** Returns the empty text if the authority is not `host` or `host:port`. */
function hostOnly(authority: string): string {
  return /^(?:\[[0-9A-Fa-f:.%]*\]|[^:]*)(?::\d*)?$/.test(authority) ? authority : "";
}
