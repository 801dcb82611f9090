/**
 * Decides which registrations of an artifact count. Every principal of a tenant may register any artifact, so a later
 * registration counts only if it comes from the artifact's principal, or carries out a rewrap that was allowed for this
 * artifact.
 *
 * Each is judged by those before it in the log, so the result never changes:
 *
 * - the first one counts, and the artifact belongs to its principal;
 * - another counts if it is that principal's, or cites an allowed rewrap that names the artifact;
 * - until a counting one has a matched citation, a matched one of another principal counts too, and the artifact then
 *   belongs to that principal;
 * - no other counts, nor does one that was not accepted.
 *
 * The registered facts are those of the latest counting one with a matched citation, else of the latest counting one.
 * Only its principal's registrations decide the owner and the nature of an artifact: a rewrap by another gives data a
 * new key.
 */
import type { PrincipalId } from "../../base/ids.ts";
import { type JsonObject, type JsonValue, textsOf } from "../../base/json.ts";
import type { StoredRecord } from "../ports/record.ts";
import { canonicalCid, parseCid } from "./cid.ts";
import { canonicalDigest } from "./digest.ts";

/** The parts of a registration that decide whether it counts. */
export interface Registration {
  readonly leafIndex: number;
  readonly principalId: PrincipalId;
  /** Whether its citation matched. */
  readonly matched: boolean;
  /** Whether it cites an allowed rewrap that names this artifact. */
  readonly rewraps: boolean;
  /** Under the name of a decision, the artifact's name too. */
  readonly labels: readonly string[];
}

/** A record that is read, or about to be sequenced. */
export type RegistrationSource = Pick<StoredRecord, "kind" | "caller" | "request" | "outcome">;

/**
 * Returns the registration by each name of its artifact, and by its decision if it carries out one. Empty for other
 * records, and if it was not accepted.
 */
export function registrationsOf(leafIndex: number, record: RegistrationSource): ReadonlyMap<string, Registration> {
  const { kind, caller, request, outcome } = record;
  if (kind !== "registration" || outcome.accepted !== true) return new Map();
  const matched = outcome.citation === "matched";
  const rewrapped = matched ? textsOf(outcome.rewraps) : [];
  const labels = textsOf(request.labels);
  const registration = { leafIndex, principalId: caller.principal_id, matched, labels };
  const names = registeredNames(request, outcome);
  const named = new Map(names.map((name) => [name, { ...registration, rewraps: rewrapped.includes(name) }]));
  // Every artifact of a decision is relied on, as every label is, so that none passes for another. No label has U+0000.
  if (matched && typeof request.decision_id === "string")
    named.set(nameOfDecision(request.decision_id), {
      ...registration,
      rewraps: false,
      labels: [...labels, `\u0000${names[0]}`],
    });
  return named;
}

/**
 * Returns those that count.
 *
 * @param registrations of one artifact, in the order of the log: all, or at least those that are relied on
 */
export function countingRegistrations<Some extends Registration>(registrations: readonly Some[]): readonly Some[] {
  let principalId: PrincipalId | undefined;
  let isSettled = false;
  return registrations.filter((registration) => {
    const isOwn = principalId === undefined || registration.principalId === principalId;
    if (!isOwn && !registration.rewraps && (isSettled || !registration.matched)) return false;
    if (isOwn || !registration.rewraps) principalId = registration.principalId;
    isSettled ||= registration.matched;
    return true;
  });
}

/** Returns the one with the registered facts of the artifact; undefined if there is none. */
export function newestRegistration<Some extends Pick<Registration, "matched">>(
  counting: readonly Some[],
): Some | undefined {
  return counting.findLast(({ matched }) => matched) ?? counting.at(-1);
}

/** Returns the one of the artifact's principal that describes it; undefined if there is none. */
export function ownersRegistration<Some extends Pick<Registration, "matched" | "principalId" | "rewraps">>(
  counting: readonly Some[],
): Some | undefined {
  let owner = counting[0]?.principalId;
  for (const { principalId, rewraps } of counting) if (!rewraps) owner = principalId;
  return newestRegistration(counting.filter(({ principalId }) => principalId === owner));
}

/**
 * Returns those that determine the result: which later ones count, the registered facts, and all labels.
 *
 * @param counting in the order of the log
 */
export function reliedOn<Some extends Registration>(counting: readonly Some[]): readonly Some[] {
  const settling = counting.find(({ matched }) => matched);
  const newest = newestRegistration(counting);
  const owners = ownersRegistration(counting);
  const labels = new Set<string>();
  return counting.filter((registration, position) => {
    const before = labels.size;
    for (const label of registration.labels) labels.add(label);
    return position === 0 || labels.size > before || [settling, newest, owners].includes(registration);
  });
}

/** Most relied-on registrations of one artifact. If there are more, nothing is known. */
export const maxReliedOn = 16;

/** Most stored bytes of those that a decision reads. If there are more, nothing is known. */
export const maxReliedOnBytes = 2 * 1024 * 1024;

// Canonical names of artifacts, for any spelling by the caller.

/**
 * Returns the name that a CID has in any base. A CIDv1 of codec raw identifies the bytes, so its name is that of their
 * digest. Any other CID identifies a structure and has a separate name, as has text that is not a CID.
 */
export function nameOfCid(cid: string): string {
  const parsed = parseCid(cid);
  if (parsed?.isRaw && parsed.algorithm !== undefined) return canonicalDigest(`${parsed.algorithm}:${parsed.hex}`);
  return `cid:${canonicalCid(cid) ?? cid}`;
}

/** Returns the names of a question's artifact: none, or each different one that its members give. */
export function artifactNames({ artifact_digest, artifact_cid }: JsonObject): readonly string[] {
  return distinct([artifact_digest, canonicalDigest], [artifact_cid, nameOfCid]);
}

/** Returns the names of the artifact that a record registers, with the CID that was derived from the object. */
export function registeredNames(request: JsonObject, outcome: JsonObject): string[] {
  const { artifact_digest, artifact_cid } = request;
  return distinct([artifact_digest, canonicalDigest], [artifact_cid, nameOfCid], [outcome.artifact_cid, nameOfCid]);
}

/** Returns the name that the artifacts of a decision share. It has U+0000, which no name that callers give has. */
export function nameOfDecision(decisionId: string): string {
  return `\u0000decision:${decisionId}`;
}

function distinct(...members: readonly (readonly [JsonValue | undefined, (text: string) => string])[]) {
  return [...new Set(members.flatMap(([text, nameOf]) => (typeof text === "string" ? [nameOf(text)] : [])))];
}
