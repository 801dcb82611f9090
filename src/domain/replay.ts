/** Evaluates a recorded decision again, under the revision that made it and under another. */
import { isDeepStrictEqual } from "node:util";
import type { AttributeValues } from "../base/caller.ts";
import type { RecordId, TenantId } from "../base/ids.ts";
import { type JsonObject, type JsonValue, parseJson } from "../base/json.ts";
import { artifactNames } from "../ledger/artifacts/registrations.ts";
import type { StoreArchive } from "../ledger/ports/archive.ts";
import type { RecordArchive } from "../ledger/ports/ledger.ts";
import type { StoredRecord } from "../ledger/ports/record.ts";
import { everyFound } from "../ledger/search/search-query.ts";
import { reliedOnIds } from "../ledger/search/summary.ts";
import { checkBundle } from "../policy/check/check.ts";
import { type CompiledEngine, type EngineOptions, engineOf } from "../policy/engine/engine.ts";
import { parseBundleContent } from "../policy/load/bundle.ts";
import {
  type Answered,
  answerOf,
  type DifferenceKind,
  differenceOf,
  type PolicyDecision,
  type PolicyEngine,
  type PolicyQuery,
} from "../policy/model/decision.ts";
import { engineVersion } from "../policy/model/schema.ts";
import { type DecisionRequest, decisionOutcome, queryOf } from "./decision.ts";
import { registeredOf } from "./registered.ts";
import { recordedPath } from "./routes.ts";

/** A member of the outcome that differs from the record. */
export interface OutcomeDifference {
  /** Name; `guidance.` precedes members of the guidance. */
  readonly member: string;
  readonly recorded: JsonValue | undefined;
  readonly now: JsonValue | undefined;
}

export interface Evaluated {
  readonly policyRevision: string;
  readonly outcome: JsonObject;
  /** Empty if the outcome equals the recorded one, except for the name of the revision. */
  readonly differences: readonly OutcomeDifference[];
}

/** Why a decision cannot be evaluated again. */
export type Irreproducible =
  /** The tenant has no such record. */
  | "unknown"
  /** Its record is erased, or that of a registration that it relied on. */
  | "erased"
  /** The record is of something else. */
  | "not_a_decision"
  /** The revision was not stored, or the stored text does not match its name. */
  | "revision_missing"
  /** The revision does not compile with this engine. */
  | "revision_refused";

export interface Replay extends RecordedDecision, Pick<RecordedEngine, "sameEngine"> {
  readonly own: Evaluated;
  /** `not_looked_up` if these policies read the artifact's registrations, and the decision did not look them up. */
  readonly current: Evaluated | "not_looked_up";
}

/** Replays the decision. Rejects with `store_unavailable` if the archive cannot be read. */
export async function replayDecision(
  archive: Pick<RecordArchive, "find" | "policyRevision">,
  tenantId: TenantId,
  decisionId: RecordId,
  current: PolicyEngine,
  options: EngineOptions = {},
): Promise<Replay | Irreproducible> {
  const decision = await findDecision(archive, tenantId, decisionId);
  if (typeof decision === "string") return decision;
  const { record, query, isComplete } = decision;
  const compiled = await compileRecorded(archive, record, options);
  if (typeof compiled === "string") return compiled;
  const { engine, sameEngine } = compiled;
  const isAnswerable = isComplete || !current.readsRegistered(query);
  return {
    ...decision,
    sameEngine,
    own: evaluate(record, query, engine.decide(query)),
    current: isAnswerable ? evaluate(record, query, current.decide(query)) : "not_looked_up",
  };
}

export interface RecordedDecision {
  readonly record: StoredRecord;
  readonly query: PolicyQuery;
  /**
   * Whether the query has all that the ledger knew. False if the request names an artifact and no policy read its
   * registrations then: policies that read them cannot be evaluated.
   */
  readonly isComplete: boolean;
}

export type FoundDecision = RecordedDecision | Extract<Irreproducible, "unknown" | "erased" | "not_a_decision">;

/** Finds the decision and what it relied on. Rejects with `store_unavailable` if the archive cannot be read. */
export async function findDecision(
  archive: Pick<RecordArchive, "find">,
  tenantId: TenantId,
  decisionId: RecordId,
): Promise<FoundDecision> {
  const record = await archive.find(tenantId, decisionId);
  if (typeof record === "string") return record;
  const question = recordedQuery(record);
  if (question === undefined) return "not_a_decision";
  const reliedOn = reliedOnIds(record.outcome);
  const registrations = await Promise.all((reliedOn ?? []).map((id) => archive.find(tenantId, id)));
  const missing = registrations.find((one) => typeof one === "string");
  if (missing !== undefined) return missing;
  const registered = registeredOf(registrations.filter((one) => typeof one !== "string"));
  return {
    record,
    query: registered === undefined ? question : { ...question, registered },
    isComplete: isComplete(record),
  };
}

/** Whether the decision looked up all registrations that any policy could read: see `RecordedDecision`. */
export function isComplete({ request, outcome }: StoredRecord): boolean {
  return reliedOnIds(outcome) !== undefined || artifactNames(request).length === 0;
}

/** Compiles the revision that decided. Rejects as `findDecision` does. */
export async function compileRecorded(
  archive: Pick<RecordArchive, "policyRevision">,
  { outcome }: StoredRecord,
  options: EngineOptions = {},
): Promise<RecordedEngine | Extract<Irreproducible, "revision_missing" | "revision_refused">> {
  const revision = String(outcome.policy_revision);
  const content = await archive.policyRevision(revision);
  const bundle = content === undefined ? undefined : parseBundleContent(content, revision);
  if (bundle === undefined) return "revision_missing";
  if (checkBundle(bundle).problems.length > 0) return "revision_refused";
  return { engine: engineOf(bundle, { ...options, isCached: false }), sameEngine: bundle.engine === engineVersion };
}

export interface RecordedEngine {
  readonly engine: CompiledEngine;
  /** Whether the revision was made for this version of the engine; if not, answers may differ for that reason. */
  readonly sameEngine: boolean;
}

/** The question of the record, without registrations; undefined if it is not a decision. */
export function recordedQuery({
  kind,
  tenant_id,
  caller,
  route,
  request,
  outcome,
}: StoredRecord): PolicyQuery | undefined {
  const found = decisionRoutes.find((one) => recordedPath(one) === route);
  if (kind !== "decision" || found === undefined || caller.auth_source === "operator") return undefined;
  const attributes = outcome.caller_attributes as AttributeValues | undefined;
  return {
    caller: {
      tenantId: tenant_id,
      principalId: caller.principal_id,
      subject: caller.subject,
      authSource: caller.auth_source,
      scopes: outcome.caller_scopes as readonly string[],
      ...(attributes !== undefined && { attributes }),
    },
    // Recorded after validation.
    ...queryOf({ route: found, request } as unknown as DecisionRequest),
  };
}

const decisionRoutes = ["protection-plan", "policy-resolve", "key-access-plan", "evaluation"] as const;

function evaluate(record: StoredRecord, { caller }: PolicyQuery, decision: PolicyDecision): Evaluated {
  // Serialized as in the record, which has no absent members.
  const { registered, reasons_withheld } = record.outcome;
  const outcome = parseJson(
    JSON.stringify(decisionOutcome(decision, caller, registered, reasons_withheld)),
  ) as JsonObject;
  const [before, after] = [flatten(record.outcome), flatten(outcome)];
  const members = [...new Set([...before.keys(), ...after.keys()])].filter((member) => member !== "policy_revision");
  const differences = members
    .filter((member) => !isDeepStrictEqual(before.get(member), after.get(member)))
    .sort()
    .map((member) => ({ member, recorded: before.get(member), now: after.get(member) }));
  return { policyRevision: decision.policyRevision, outcome, differences };
}

function flatten({ guidance, ...others }: JsonObject): ReadonlyMap<string, JsonValue | undefined> {
  const guided = Object.entries((guidance ?? {}) as JsonObject).map(
    ([name, value]) => [`guidance.${name}`, value] as const,
  );
  return new Map([...Object.entries(others), ...guided]);
}

// Compares the answers of two engines to recorded decisions.

/** Decisions that change from one answer with its reasons to another, as a member of an answer. */
export interface RecordedChange {
  readonly kind: DifferenceKind;
  readonly count: number;
  readonly before: Answered;
  readonly after: Answered;
  /** Most frequent first. Applications are claims; those beyond `maxApplications` are counted without a name. */
  readonly callers: readonly { readonly tenant_id: TenantId; readonly application?: string; readonly count: number }[];
  /** The newest of them. */
  readonly example: { readonly tenant_id: TenantId; readonly decision_id: RecordId };
}

/** A comparison as a member of an answer. */
export interface RecordedComparison {
  readonly compared: number;
  readonly erased: number;
  /** Decisions whose records lack the question. */
  readonly not_askable: number;
  /** Decisions about an artifact whose registrations were not looked up, and which one of the engines reads. */
  readonly not_looked_up: number;
  /** Most frequent first. */
  readonly ways: readonly RecordedChange[];
}

/** Applications of a tenant that are counted separately for one change. */
const maxApplications = 100;

/**
 * Evaluates every decision since then with both engines. Rejects with `store_unavailable` if the archive cannot be
 * read.
 *
 * @param fromMs milliseconds since the Unix epoch
 * @param onProgress called with the number of decisions read
 */
export async function compareRecorded(
  archive: Pick<StoreArchive, "search" | "find">,
  tenants: readonly TenantId[],
  fromMs: number,
  engines: readonly [PolicyEngine, PolicyEngine],
  onProgress: (decisions: number) => void,
): Promise<RecordedComparison> {
  const comparing = new RecordedComparing(engines);
  let count = 0;
  for (const tenantId of tenants) {
    for await (const { kind, erased, recordId } of everyFound(archive, { tenantId, terms: [], fromMs })) {
      if (kind !== "decision") continue;
      comparing.add(tenantId, erased ? "erased" : await findDecision(archive, tenantId, recordId));
      onProgress(++count);
    }
  }
  return comparing.result();
}

interface Counted {
  /** When the example was recorded. */
  recordedAt: string;
  change: Omit<RecordedChange, "count" | "callers">;
  count: number;
  readonly tenants: Map<TenantId, Map<string | undefined, number>>;
}

/** Evaluates decisions with both engines, one by one, and counts the differences. */
export class RecordedComparing {
  readonly #engines: readonly [PolicyEngine, PolicyEngine];
  readonly #counts = { compared: 0, erased: 0, not_askable: 0, not_looked_up: 0 };
  readonly #ways = new Map<string, Counted>();

  constructor(engines: readonly [PolicyEngine, PolicyEngine]) {
    this.#engines = engines;
  }

  add(tenantId: TenantId, found: FoundDecision): void {
    if (found === "erased") this.#counts.erased += 1;
    else if (typeof found === "string") this.#counts.not_askable += 1;
    else if (!found.isComplete && this.#engines.some((engine) => engine.readsRegistered(found.query)))
      this.#counts.not_looked_up += 1;
    else {
      this.#counts.compared += 1;
      this.#compare(tenantId, found);
    }
  }

  result(): RecordedComparison {
    const ways = [...this.#ways.values()].map(
      ({ change: { kind, before, after, example }, count, tenants }): RecordedChange => {
        const callers = [...tenants].flatMap(([tenant_id, applications]) =>
          [...applications].map(([application, own]) => ({
            tenant_id,
            ...(application !== undefined && { application }),
            count: own,
          })),
        );
        return { kind, count, before, after, callers: callers.sort((a, b) => b.count - a.count), example };
      },
    );
    return { ...this.#counts, ways: ways.sort((a, b) => b.count - a.count) };
  }

  #compare(tenantId: TenantId, { query, record }: RecordedDecision): void {
    const [before, after] = this.#engines.map((engine) => engine.decide(query)) as [PolicyDecision, PolicyDecision];
    const difference = differenceOf(before, after);
    if (difference === undefined) return;
    const example = { tenant_id: tenantId, decision_id: record.record_id };
    const change = { kind: difference.kind, before: answerOf(before), after: answerOf(after), example };
    const key = JSON.stringify([change.kind, change.before, change.after]);
    const { recorded_at: recordedAt } = record;
    const counted: Counted = this.#ways.get(key) ?? { recordedAt, change, count: 0, tenants: new Map() };
    this.#ways.set(key, counted);
    counted.count += 1;
    if (recordedAt >= counted.recordedAt) {
      counted.recordedAt = recordedAt;
      counted.change = change;
    }
    const applications = counted.tenants.get(tenantId) ?? new Map<string | undefined, number>();
    counted.tenants.set(tenantId, applications);
    const { application } = query.claimed.workload;
    const name = applications.has(application) || applications.size < maxApplications ? application : undefined;
    applications.set(name, (applications.get(name) ?? 0) + 1);
  }
}
