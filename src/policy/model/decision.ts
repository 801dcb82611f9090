/** Policy queries and decisions. Pure data; the engine is in `engine.ts`. */
import { isDeepStrictEqual } from "node:util";
import type { Caller } from "../../base/caller.ts";
import type { ArtifactProfile, KeyTransportMode, TdfKeyName } from "../../base/vocabulary.ts";
import type { claimedRows, onBehalfOfRows, RecordOf, registeredRows } from "./input-table.ts";

/** Actions that policies name. The key operation `rewrap` is `rewrapKey`, so that it has separate rules. */
export type PolicyAction = "protect" | "access" | "rewrap" | "wrap" | "unwrap" | "rewrapKey";

export type Claimed = RecordOf<typeof claimedRows>;
export type Registered = RecordOf<typeof registeredRows>;
export type OnBehalfOf = RecordOf<typeof onBehalfOfRows>;

/** One question: may this caller do this? */
export interface PolicyQuery {
  readonly caller: Caller;
  readonly action: PolicyAction;
  readonly claimed: Claimed;
  /** Absent if nothing is known, or was not looked up: see `readsRegistered`. */
  readonly registered?: Registered;
  /** Absent if the caller asks about itself. If present, only permits that read it count: see `check/delegation.ts`. */
  readonly onBehalfOf?: OnBehalfOf;
  /** Ids or names (`isUnderstood`) of the obligations that the caller meets. No policy reads them: they are checked after all policies. */
  readonly understoodObligations?: readonly string[];
}

/** Guidance on key transport. Absent if the caller holds the key itself. */
type KeyTransportGuidance = {
  readonly exchange_algorithm?: string;
  readonly key_material_origin: string;
  readonly mode: KeyTransportMode;
  readonly public_key_distribution?: string;
  readonly raw_key_delivery_forbidden: true;
  readonly stable_key_reference_preferred: boolean;
  readonly tdf_key?: {
    readonly algorithm: TdfKeyName["algorithm"];
    readonly attribute_fqns: readonly string[];
    readonly kid: string;
    readonly url: string;
  };
};

/**
 * Instructions for the caller: the deciding policies' annotations merged over the defaults. It is recorded as it is,
 * its members in the order of canonical JSON.
 */
export type Guidance = {
  /** The resolved profile: policy's override, else the requested one, else the configured default. */
  readonly artifact_profile: ArtifactProfile;
  /** Whether policy replaced the requested profile. */
  readonly artifact_profile_overridden: boolean;
  readonly authorization_strategy: string;
  readonly bind_policy_to: readonly string[];
  readonly enforcement_mode: string;
  readonly evidence_expected: readonly string[];
  readonly handling_mode: string;
  readonly key_strategy: string;
  readonly key_transport?: KeyTransportGuidance;
  readonly local_enforcement_library: string;
  readonly policy_resolution: string;
  readonly required_actions: readonly string[];
  /** Scopes that policy requires besides the route's. A caller without all of them is denied. */
  readonly required_scopes: readonly string[];
  readonly send_only: readonly string[];
  readonly warnings: readonly string[];
};

/** What the caller must do if it relies on the decision. Values are text: numbers in decimal, `true` and `false`. */
export type Obligation = {
  readonly id: string;
  readonly parameters: Readonly<Record<string, string>>;
};

/** The answer. Anything that could not be evaluated is a denial. */
export interface PolicyDecision {
  readonly allow: boolean;
  /** Ids of the policies that decided, sorted; empty if none matched. */
  readonly reasons: readonly string[];
  /** Content address of everything that decided: both layers, schema, manifest, defaults, patterns, engine. */
  readonly policyRevision: string;
  /** Members of the request that the policy set reads for this action, sorted, such as `resource.kind`. */
  readonly inputs: readonly string[];
  readonly guidance: Guidance;
  /** Sorted. */
  readonly obligations: readonly Obligation[];
  /** Obligations that prevent an allow, because the request does not say that they are understood. Not recorded. */
  readonly unmet?: readonly Obligation[];
  /** Names of the deciding policies' alerts, sorted. For the operator. */
  readonly alerts: readonly string[];
}

/** What comparisons show of a decision. */
export type Answered = Pick<PolicyDecision, "allow" | "reasons">;

export function answerOf({ allow, reasons }: PolicyDecision): Answered {
  return { allow, reasons };
}

/** A loaded policy set, or the newest valid one of a watched directory. */
export interface PolicyEngine {
  /**
   * Pure and synchronous: reads memory only. Never throws for a query of the right type, except that a replaceable
   * engine throws `policy_unavailable` for a caller whose attributes were read by other declarations than the current
   * ones.
   */
  decide(query: PolicyQuery): PolicyDecision;
  /** Whether a policy that could apply reads `registered`; if not, it need not be looked up. Pure. */
  readsRegistered(query: Pick<PolicyQuery, "caller" | "action">): boolean;
  /** The actions to which policies map further names, of AuthZEN; sorted by name. */
  readonly actions: ReadonlyMap<string, PolicyAction>;
  /** The revision in force. */
  readonly revision: string;
}

/** The two layers. Both must allow. */
export type Layer = "platform" | "tenant";

/** `platform/<id>` or `tenant/<id>`. */
export function reasonOf(layer: Layer, policyId: string): string {
  return `${layer}/${policyId}`;
}

/** Reasons of denials without a policy. Policies must not use these ids. */
export const reservedIds = [
  "no-policy-set",
  "evaluation-error",
  "guidance-conflict",
  "key-reference-of-another-tenant",
  "required-scope-missing",
  "obligation-without-value",
  "obligation-not-understood",
] as const;

export function ownReason(id: (typeof reservedIds)[number], layer: Layer = "platform"): string {
  return reasonOf(layer, id);
}

/**
 * How a second decision differs from a first. Only the most severe difference counts: it denies what was allowed,
 * allows what was denied, gives other guidance, or gives other reasons.
 */
export type DifferenceKind = "denies" | "allows" | "guides" | "reasons";

export interface DecisionDifference {
  readonly kind: DifferenceKind;
  /** Members of the guidance that differ, sorted; empty if one of the two denies. */
  readonly guidance: readonly (keyof Guidance | "obligations" | "alerts")[];
}

/** Undefined if they are the same. Revisions and inputs are not compared. */
export function differenceOf(first: PolicyDecision, second: PolicyDecision): DecisionDifference | undefined {
  if (first.allow !== second.allow) return { kind: first.allow ? "denies" : "allows", guidance: [] };
  const names = new Set([...Object.keys(first.guidance), ...Object.keys(second.guidance)] as (keyof Guidance)[]);
  const guidance: DecisionDifference["guidance"][number][] = [...names].filter(
    (name) => !isDeepStrictEqual(first.guidance[name], second.guidance[name]),
  );
  for (const name of ["obligations", "alerts"] as const) {
    if (!isDeepStrictEqual(first[name], second[name])) guidance.push(name);
  }
  guidance.sort();
  if (guidance.length > 0) return { kind: "guides", guidance };
  return isDeepStrictEqual(first.reasons, second.reasons) ? undefined : { kind: "reasons", guidance };
}
