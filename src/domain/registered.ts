/**
 * Facts of the ledger about the artifact of a question. Which registrations count was decided when they were recorded
 * (`ledger/artifacts/registrations.ts`); this file derives what they state, for a decision and for its later evaluation
 * alike.
 */
import { ServiceError } from "../base/errors.ts";
import type { RecordId } from "../base/ids.ts";
import { type JsonObject, objectOf, textsOf } from "../base/json.ts";
import { traced } from "../base/trace.ts";
import type { ArtifactProfile } from "../base/vocabulary.ts";
import { canonicalDigest } from "../ledger/artifacts/digest.ts";
import {
  countingRegistrations,
  nameOfDecision,
  newestRegistration,
  ownersRegistration,
  type Registration,
  registrationsOf,
} from "../ledger/artifacts/registrations.ts";
import type { Ledger } from "../ledger/ports/ledger.ts";
import type { StoredRecord } from "../ledger/ports/record.ts";
import type { ArtifactRegistrations, FoundRegistration } from "../ledger/ports/registrations.ts";
import type { Registered } from "../policy/model/decision.ts";
import type { CallIdentity } from "./record.ts";

/** What was found, and the registrations behind it. */
export interface LookedUp {
  /** Undefined if nothing is known. */
  readonly registered: Registered | undefined;
  /** In the order of the log; empty if nothing is known. */
  readonly reliedOn: readonly Pick<FoundRegistration, "recordId" | "leafIndex">[];
}

const nothing: LookedUp = { registered: undefined, reliedOn: [] };

type WhoseRegistrations = Pick<CallIdentity, "caller" | "span">;

/** With more labels, nothing is known. */
const maxLabels = 1_000;

/**
 * Looks up the artifact. Several names must all belong to an artifact of the same registration; otherwise they may be
 * of different artifacts, and nothing is known about them together.
 *
 * @param names of the artifact, from `artifactNames`
 * @throws ServiceError `store_unavailable`, also for damaged records: a decision must not ignore what was registered
 */
export async function lookUpRegistered(
  ledger: Pick<Ledger, "registrations">,
  call: WhoseRegistrations,
  names: readonly string[],
): Promise<LookedUp> {
  return whatIsKnown(await registrations(ledger, call, names, refuseDamaged));
}

/**
 * Looks up what was registered with each of the decisions: the newest registration of its artifact. Undefined if there
 * is none, or if it was erased; `several` if more than one artifact is registered, or may be. A registration that does
 * not count for its artifact does not lead to it.
 *
 * @throws ServiceError as `lookUpRegistered`
 */
export async function registeredWith(
  ledger: Pick<Ledger, "registrations">,
  call: WhoseRegistrations,
  decisionIds: readonly RecordId[],
): Promise<readonly (StoredRecord | "several" | undefined)[]> {
  if (decisionIds.length === 0) return [];
  const found = await registrations(ledger, call, decisionIds.map(nameOfDecision), refuseDamaged);
  const lists = found.map((list) => (typeof list === "string" ? [] : list));
  const names = [...new Set(lists.flat().map(artifactOf))];
  const others = names.length === 0 ? [] : await registrations(ledger, call, names, refuseDamaged);
  return lists.map((list, i) => {
    const counting = list.filter((one) => {
      const name = artifactOf(one);
      const before = others[names.indexOf(name)] ?? [];
      const registration = registrationsOf(one.leafIndex, one.record).get(name);
      return typeof before === "string" || (registration && countsAfter(before, name, registration));
    });
    if (found[i] === "too_many" || new Set(counting.map(artifactOf)).size > 1) return "several";
    return newestOf(counting.map(({ record }) => record));
  });
}

function artifactOf({ record: { request } }: FoundRegistration): string {
  return canonicalDigest(request.artifact_digest as string);
}

function refuseDamaged({ details }: ServiceError): never {
  const message = "What was registered of the artifact cannot be read: its record is damaged.";
  throw new ServiceError("store_unavailable", message, { cause: details.cause });
}

/** Whether one more registration of an artifact, after all known ones, would count. */
type WouldCount = (
  registration: Pick<Registration, "principalId" | "matched"> & { rewraps: readonly string[] },
) => boolean;

/**
 * Returns what a registration is about to change, under each name of its artifact. If nothing can be known of that, or
 * records are damaged, it does not claim that the artifact is another principal's.
 *
 * @throws ServiceError `store_unavailable`
 */
export async function registeredBefore(
  ledger: Pick<Ledger, "registrations">,
  call: WhoseRegistrations,
  names: readonly string[],
): Promise<readonly WouldCount[]> {
  const found = await registrations(ledger, call, names, () => []);
  return found.flatMap((list, position) => {
    const name = names[position] ?? "";
    if (typeof list === "string") return [];
    const next = { leafIndex: Number.POSITIVE_INFINITY, labels: [] };
    return ({ principalId, matched, rewraps }): boolean =>
      countsAfter(list, name, { ...next, principalId, matched, rewraps: rewraps.includes(name) });
  });
}

/** Whether a registration of the artifact counts after those that come before it in the log. */
function countsAfter(found: readonly FoundRegistration[], name: string, registration: Registration): boolean {
  const { leafIndex: end } = registration;
  const before = found.flatMap(({ leafIndex, record }) =>
    leafIndex < end ? (registrationsOf(leafIndex, record).get(name) ?? []) : [],
  );
  return countingRegistrations([...before, registration]).includes(registration);
}

/** @param ofDamaged called if a record is damaged */
function registrations(
  ledger: Pick<Ledger, "registrations">,
  { caller, span }: WhoseRegistrations,
  names: readonly string[],
  ofDamaged: (error: ServiceError) => readonly ArtifactRegistrations[],
): Promise<readonly ArtifactRegistrations[]> {
  const asked = traced(span, "ledger.registrations", () => ledger.registrations(caller.tenantId, names));
  return asked.catch((error: unknown) => {
    if (error instanceof ServiceError && error.reason === "internal") return ofDamaged(error);
    throw error;
  });
}

/** @param found registrations that count, for each name */
export function whatIsKnown(found: readonly ArtifactRegistrations[]): LookedUp {
  const lists = found.filter((one) => typeof one !== "string");
  const [newest, ...others] = lists.map((list) => newestOf(list.map(({ record }) => record)));
  const isOne = newest !== undefined && others.every((other) => other?.record_id === newest.record_id);
  if (lists.length < found.length || !isOne) return nothing;
  const all = new Map(lists.flat().map((one) => [one.leafIndex, one]));
  const reliedOn = [...all.values()].sort((one, other) => one.leafIndex - other.leafIndex);
  const registered = registeredOf(reliedOn.map(({ record }) => record));
  return registered === undefined ? nothing : { registered, reliedOn };
}

/**
 * What registrations state about their artifact; undefined if there are none, or too many labels.
 *
 * @param registrations that count, in the order of the log
 */
export function registeredOf(registrations: readonly StoredRecord[]): Registered | undefined {
  const judged = registrations.map(judge);
  const newest = newestRegistration(judged)?.record;
  const owners = ownersRegistration(judged)?.record;
  const ever = new Set(registrations.flatMap(({ request }) => textsOf(request.labels)));
  if (newest === undefined || owners === undefined || ever.size > maxLabels) return undefined;
  const { request, outcome } = newest;
  const { workload, resource, attributes } = owners.request;
  const [{ application }, { kind, id }, tags] = [objectOf(workload), objectOf(resource), objectOf(attributes)];
  return {
    labels: textsOf(request.labels),
    labels_ever: [...ever],
    attributes: tags as Readonly<Record<string, string>>,
    resource: { kind: kind as string, ...(id !== undefined && { id: id as string }) },
    artifact_profile: request.artifact_profile as ArtifactProfile,
    ...(request.key_reference !== undefined && { key_reference: request.key_reference as string }),
    application: application as string,
    principal: owners.caller.principal_id,
    citation_matched: outcome.citation === "matched",
    registered_at: Date.parse(newest.recorded_at),
  };
}

function newestOf(registrations: readonly StoredRecord[]): StoredRecord | undefined {
  return newestRegistration(registrations.map(judge))?.record;
}

/** A rewrap of any artifact counts: registering several at once must not make the registrant their owner. */
function judge(record: StoredRecord) {
  const matched = record.outcome.citation === "matched";
  const rewraps = matched && textsOf(record.outcome.rewraps).length > 0;
  return { record, matched, rewraps, principalId: record.caller.principal_id };
}

/** In a decision's record: ids of what it relied on, not the content. */
export function reliedOnMembers(reliedOn: LookedUp["reliedOn"]): readonly JsonObject[] {
  return reliedOn.map(({ recordId, leafIndex }) => ({ leaf_index: leafIndex, record_id: recordId }));
}
