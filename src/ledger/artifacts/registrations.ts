/**
 * Which registrations of an artifact count. Anybody of a tenant may register any artifact, so one that comes later counts
 * only where it comes from whoever the artifact is of, or carries out a rewrap that was allowed for this very artifact.
 *
 * Each is judged by those that stand before it in the log, so that what counted once does for ever:
 *
 * - the first one counts, and the artifact is of its principal;
 * - another counts where it is of that principal, or cites an allowed rewrap that names the artifact;
 * - as long as none that counts has a citation that matched, one of somebody else that has counts too, and from there on
 *   the artifact is of that principal;
 * - no other does. One that was not accepted is none.
 *
 * What was recorded is what the latest one that counts and whose citation matched says, else the latest that counts. Of
 * whom the artifact is, and what it is, only those of that principal say: a rewrap by somebody else gives data another key.
 */
import type { PrincipalId } from "../../base/ids.ts";
import type { JsonObject, JsonValue } from "../../base/json.ts";
import type { RecordCaller, RecordKind } from "../ports/record.ts";
import { registeredNames } from "./artifact-names.ts";

/** What of a registration says whether it counts. */
export interface Registration {
  readonly leafIndex: number;
  readonly principalId: PrincipalId;
  /** Whether its citation matched. */
  readonly matched: boolean;
  /** Whether what it cites is an allowed rewrap that names this artifact. */
  readonly rewraps: boolean;
  readonly labels: readonly string[];
}

/** A record as it is read back, or as it is about to be sequenced. */
export interface RegistrationSource {
  readonly kind: RecordKind;
  readonly caller: RecordCaller;
  readonly request: JsonObject;
  readonly outcome: JsonObject;
}

/**
 * What a record registers: for each name of its artifact the registration of that. Empty where it is of something else,
 * or was not accepted.
 */
export function registrationsOf(leafIndex: number, record: RegistrationSource): ReadonlyMap<string, Registration> {
  const { kind, caller, request, outcome } = record;
  if (kind !== "registration" || outcome.accepted !== true) return new Map();
  const matched = outcome.citation === "matched";
  const rewrapped = matched ? textsOf(outcome.rewraps) : [];
  const registration = { leafIndex, principalId: caller.principal_id, matched, labels: textsOf(request.labels) };
  return new Map(
    registeredNames(request, outcome).map((name) => [name, { ...registration, rewraps: rewrapped.includes(name) }]),
  );
}

function textsOf(value: JsonValue | undefined): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

/**
 * Those that count.
 *
 * @param registrations of one artifact, in the order of the log: all of them, or at least those that are relied on
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

/** The one that says what was recorded of the artifact. Undefined where there is none. */
export function newestRegistration<Some extends Pick<Registration, "matched">>(
  counting: readonly Some[],
): Some | undefined {
  return counting.findLast(({ matched }) => matched) ?? counting.at(-1);
}

/** Of those of the principal that the artifact is of, the one that says what it is. Undefined where there is none. */
export function ownersRegistration<Some extends Pick<Registration, "matched" | "principalId" | "rewraps">>(
  counting: readonly Some[],
): Some | undefined {
  let owner = counting[0]?.principalId;
  for (const { principalId, rewraps } of counting) if (!rewraps) owner = principalId;
  return newestRegistration(counting.filter(({ principalId }) => principalId === owner));
}

/**
 * Those without which the others would not say the same: which of any others count, what was recorded, and all labels.
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

/** Registrations of one artifact that are relied on, at most. One that has more cannot be known. */
export const maxReliedOn = 16;

/** Bytes of those, as they are stored, that are read for a decision, at most. One that has more cannot be known. */
export const maxReliedOnBytes = 2 * 1024 * 1024;
