/** Policy queries and decisions. Pure data; the engine is in `engine.ts`. */
import type { Caller } from "../../base/caller.ts";
import type { ArtifactProfile, KeyTransportMode } from "../../base/vocabulary.ts";

/** Actions that policies name. The key operation `rewrap` is `rewrapKey`, so that it has rules of its own. */
export type PolicyAction = "protect" | "access" | "rewrap" | "wrap" | "unwrap" | "rewrapKey";

/**
 * What the caller says of itself and of the resource. None of it is authenticated, so policies see it under
 * `claimed` and never as part of the principal.
 */
export interface Claimed {
  readonly workload: {
    readonly application: string;
    readonly environment?: string;
    readonly component?: string;
  };
  readonly resource: { readonly kind: string; readonly id?: string; readonly mime_type?: string };
  readonly purpose?: string;
  readonly labels: readonly string[];
  readonly attributes: Readonly<Record<string, string>>;
  /** The profile that the request names, if any. */
  readonly artifact_profile?: ArtifactProfile;
  readonly content_digest_present: boolean;
  readonly content_size_bytes?: number;
  readonly key_reference?: string;
}

/**
 * What the ledger has of the artifact that the request names: what was recorded when it was registered. Policies see it
 * under `registered`, and nothing of it comes from the request.
 */
export interface Registered {
  readonly labels: readonly string[];
  /** Of every registration of the artifact that counts: none is ever washed off. */
  readonly labels_ever: readonly string[];
  readonly attributes: Readonly<Record<string, string>>;
  readonly resource: { readonly kind: string; readonly id?: string };
  readonly artifact_profile: string;
  readonly key_reference?: string;
  /** The workload's, as it was claimed then. */
  readonly application: string;
  /** Id of the principal that registered it. */
  readonly principal: string;
  /** Whether the registration cites a decision under which it was allowed. */
  readonly citation_matched: boolean;
  /** Milliseconds since the Unix epoch. */
  readonly registered_at: number;
}

/**
 * Whom a question is about, where that is somebody else than the caller: as the enforcement point that asks has it. Policies
 * see it under `on_behalf_of`, never as part of the principal.
 */
export interface OnBehalfOf {
  readonly type: string;
  readonly id: string;
  /** One text for each property. */
  readonly properties: Readonly<Record<string, string>>;
  /** `name=value` for each value of each property: of one that is a list, each of its members. */
  readonly property_values: readonly string[];
}

/** One question: may this caller do this? */
export interface PolicyQuery {
  readonly caller: Caller;
  readonly action: PolicyAction;
  readonly claimed: Claimed;
  /** Absent where nothing is known, or was not looked up: see `readsRegistered`. */
  readonly registered?: Registered;
  /** Absent where the caller asks about itself. Where it is there, only permits that read it count: see `delegation.ts`. */
  readonly onBehalfOf?: OnBehalfOf;
  /** Ids of the obligations that the caller meets. No policy reads them: what they decide is decided after all policies. */
  readonly understoodObligations?: readonly string[];
}

/** Guidance on key transport. Absent where the caller holds the key itself. */
export interface KeyTransportGuidance {
  readonly mode: KeyTransportMode;
  readonly keyMaterialOrigin: string;
  readonly stableKeyReferencePreferred: boolean;
  readonly publicKeyDistribution?: string;
  readonly exchangeAlgorithm?: string;
}

/** What the caller is told to do, after the deciding policies' annotations were merged over the defaults. */
export interface Guidance {
  readonly handlingMode: string;
  readonly enforcementMode: string;
  readonly localEnforcementLibrary: string;
  /** The resolved profile: policy's override, else the one asked for, else the configured default. */
  readonly artifactProfile: ArtifactProfile;
  /** Whether policy replaced the profile that the request asked for. */
  readonly artifactProfileOverridden: boolean;
  readonly keyStrategy: string;
  readonly authorizationStrategy: string;
  readonly policyResolution: string;
  readonly keyTransport?: KeyTransportGuidance;
  readonly sendOnly: readonly string[];
  readonly bindPolicyTo: readonly string[];
  readonly requiredActions: readonly string[];
  readonly evidenceExpected: readonly string[];
  /** Scopes that policy requires besides the route's. The caller has them all, or the answer is a denial. */
  readonly requiredScopes: readonly string[];
  readonly warnings: readonly string[];
}

/** What the caller must do where it takes the decision. Values are text: numbers in decimal, `true` and `false`. */
export interface Obligation {
  readonly id: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** The answer. Anything that could not be evaluated is a denial. */
export interface PolicyDecision {
  readonly allow: boolean;
  /** Ids of the policies that decided, sorted; empty where nothing matched. */
  readonly reasons: readonly string[];
  /** Content address of everything that decided: both layers, schema, manifest, defaults, patterns, engine. */
  readonly policyRevision: string;
  /** Members of the request that the policy set reads for this action, sorted, such as `resource.kind`. */
  readonly inputs: readonly string[];
  readonly guidance: Guidance;
  /** What the caller must do where it takes the decision; sorted. */
  readonly obligations: readonly Obligation[];
  /** Names of the alerts of the policies that decided; sorted. For the operator. */
  readonly alerts: readonly string[];
}

/** A loaded policy set, or the newest good one of a directory that is watched. */
export interface PolicyEngine {
  /**
   * Pure and synchronous: reads memory only. Never throws for a query of the right type, but where it can be replaced
   * `policy_unavailable`, for a caller of whom other attributes were read than are declared now.
   */
  decide(query: PolicyQuery): PolicyDecision;
  /** Whether a policy that could apply reads `registered`: where none does, it need not be looked up. Pure, like `decide`. */
  readsRegistered(query: Pick<PolicyQuery, "caller" | "action">): boolean;
  /** The action that a name of an enforcement point's stands for; undefined where policies map it to none. */
  actionNamed(name: string): PolicyAction | undefined;
  /** Names that policies map to an action, sorted. */
  readonly actionNames: readonly string[];
  /** The revision in force. */
  readonly revision: string;
}

/** The two layers. Both must allow. */
export type Layer = "platform" | "tenant";

/** `platform/<id>` or `tenant/<id>`. */
export function reasonOf(layer: Layer, policyId: string): string {
  return `${layer}/${policyId}`;
}

/** What denies without a policy. No policy may take these ids. */
export const noPolicySet = "no-policy-set";
export const evaluationError = "evaluation-error";
export const guidanceConflict = "guidance-conflict";
export const keyReferenceOfAnotherTenant = "key-reference-of-another-tenant";
export const requiredScopeMissing = "required-scope-missing";
export const obligationWithoutValue = "obligation-without-value";
export const obligationNotUnderstood = "obligation-not-understood";

export const reservedIds: readonly string[] = [
  noPolicySet,
  evaluationError,
  guidanceConflict,
  keyReferenceOfAnotherTenant,
  requiredScopeMissing,
  obligationWithoutValue,
  obligationNotUnderstood,
];
