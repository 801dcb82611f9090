/** Evaluates a recorded decision again: under the revision that made it, and under another. */
import { isDeepStrictEqual } from "node:util";
import type { AttributeValues } from "../base/caller-attributes.ts";
import type { RecordId, TenantId } from "../base/ids.ts";
import type { JsonObject, JsonValue } from "../base/json.ts";
import type { RecordArchive } from "../ledger/ports/ledger.ts";
import type { StoredRecord } from "../ledger/ports/record.ts";
import type { PolicyDecision, PolicyEngine, PolicyQuery } from "../policy/engine/decision.ts";
import { compilePolicyBundle } from "../policy/engine/engine.ts";
import { engineVersion } from "../policy/engine/schema.ts";
import { parseBundleContent } from "../policy/load/bundle.ts";
import { decisionOutcome } from "./decision.ts";
import { type DecisionRequest, queryOf } from "./policy-query.ts";
import { routes } from "./routes.ts";

/** A member of the outcome that is not as it was recorded. */
export interface OutcomeDifference {
  /** Name, with `guidance.` before those of the guidance. */
  readonly member: string;
  readonly recorded: JsonValue | undefined;
  readonly now: JsonValue | undefined;
}

export interface Evaluated {
  readonly policyRevision: string;
  readonly outcome: JsonObject;
  /** Empty where the outcome is the recorded one, but for the name of the revision. */
  readonly differences: readonly OutcomeDifference[];
}

/** Why a decision cannot be evaluated again. */
export type Irreproducible =
  /** The tenant has no such record. */
  | "unknown"
  | "erased"
  /** The record is of something else. */
  | "not_a_decision"
  /** The revision was not kept, or what was kept is not what its name says. */
  | "revision_missing"
  /** The revision does not compile any more. */
  | "revision_refused";

export interface Replay {
  readonly record: StoredRecord;
  readonly query: PolicyQuery;
  /** Whether the revision was made for this very engine; where it was not, answers may differ for that reason. */
  readonly sameEngine: boolean;
  readonly own: Evaluated;
  readonly current: Evaluated;
}

/** Replays the decision. Rejects with `store_unavailable` where the archive cannot be read. */
export async function replayDecision(
  archive: Pick<RecordArchive, "find" | "policyRevision">,
  tenantId: TenantId,
  decisionId: RecordId,
  current: PolicyEngine,
): Promise<Replay | Irreproducible> {
  const record = await archive.find(tenantId, decisionId);
  if (typeof record === "string") return record;
  const query = recordedQuery(record);
  if (query === undefined) return "not_a_decision";
  const revision = String(record.outcome.policy_revision);
  const content = await archive.policyRevision(revision);
  const bundle = content === undefined ? undefined : parseBundleContent(content, revision);
  if (bundle === undefined) return "revision_missing";
  const { engine } = compilePolicyBundle(bundle, { cachedDecisions: 0 });
  if (engine === undefined) return "revision_refused";
  try {
    return {
      record,
      query,
      sameEngine: bundle.engine === engineVersion,
      own: evaluate(record, query, engine.decide(query)),
      current: evaluate(record, query, current.decide(query)),
    };
  } finally {
    engine.release();
  }
}

/** The question that the record answers; undefined where it is not of a decision. */
export function recordedQuery({
  kind,
  tenant_id,
  caller,
  route,
  request,
  outcome,
}: StoredRecord): PolicyQuery | undefined {
  const found = routes.find(({ path }) => path === route)?.route;
  if (kind !== "decision" || !isDecisionRoute(found) || caller.auth_source === "operator") return undefined;
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
    // Recorded as it was evaluated, after it was found to be good.
    ...queryOf({ route: found, request } as unknown as DecisionRequest),
  };
}

function isDecisionRoute(route: string | undefined): route is DecisionRequest["route"] {
  return route === "protection-plan" || route === "policy-resolve" || route === "key-access-plan";
}

function evaluate(record: StoredRecord, { caller }: PolicyQuery, decision: PolicyDecision): Evaluated {
  // As it would have been recorded: absent members are left out there.
  const outcome = JSON.parse(JSON.stringify(decisionOutcome(decision, caller))) as JsonObject;
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
