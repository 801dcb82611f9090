/** The engine: a bundle, compiled so that it decides. */
import type { TenantId } from "../base/ids.ts";
import { bundleContent, type PolicyBundle, revisionOf } from "./bundle.ts";
import { type CheckedBundle, checkBundle } from "./check.ts";
import type { CheckedPolicy } from "./check-set.ts";
import type { PolicyDecision, PolicyEngine, PolicyQuery } from "./decision.ts";
import { DecisionCache } from "./decision-cache.ts";
import { EngineSets } from "./engine-sets.ts";
import { type Explanation, explain } from "./explanation.ts";
import { toFacts } from "./facts.ts";
import { guidanceOfAllow, guidanceOfDeny } from "./guidance.ts";
import { type KeyReferenceStanding, keyReferenceLookup } from "./key-references.ts";
import { otherTenants } from "./manifest.ts";
import { type Plan, type PlansByAction, plansOf } from "./plan.ts";
import type { PolicyProblem } from "./problem.ts";
import { keyReferenceOfAnotherTenant, noPolicySet, reasonOf, requiredScopeMissing } from "./reasons.ts";
import { type LayerSet, type Ruling, rule } from "./ruling.ts";

/** A policy of a compiled bundle, for tests and explanations. */
export type CompiledPolicy = Pick<CheckedPolicy, "id" | "file" | "line" | "text" | "effect" | "description"> & {
  readonly set: string;
};

/** An engine over one bundle. It belongs to the thread that compiled it. */
export interface CompiledEngine extends PolicyEngine {
  /** What is kept so that this very engine can be made again: see `parseBundleContent`. Its hash is the revision. */
  readonly content: string;
  /** All policies, by set and place. */
  readonly policies: readonly CompiledPolicy[];
  /** Folder of the set that a layer uses for the tenant; undefined where the tenant has none. */
  setOf(layer: "platform" | "tenant", tenant: TenantId): string | undefined;
  /** Why the question is answered as it is. Slower than an answer. */
  explain(query: PolicyQuery): Explanation;
  /** Gives Cedar's memory back. Later decisions are denials. Idempotent. */
  release(): void;
}

export interface EngineOptions {
  /** Rulings kept in memory: 0 for none, which changes no answer. Default 10,000, about 20 MB when full. */
  readonly cachedRulings?: number;
  /**
   * Platform policies up to which both layers are evaluated in one call; beyond, each has its own. It changes no
   * answer: one call costs about half of two, but every tenant's set then holds the platform's policies too. Default
   * 64.
   */
  readonly maxSharedPolicies?: number;
}

/** An engine, or everything that is wrong with its bundle. */
export type CompiledBundle =
  | { readonly engine: CompiledEngine; readonly problems?: never }
  | { readonly engine?: never; readonly problems: readonly PolicyProblem[] };

/** Compiles a bundle; or names everything that is wrong with it. */
export function compilePolicyBundle(bundle: PolicyBundle, options: EngineOptions = {}): CompiledBundle {
  return compileCheckedBundle(bundle, checkBundle(bundle), options);
}

/** The same for a bundle that was checked before, in another thread perhaps. */
export function compileCheckedBundle(
  bundle: PolicyBundle,
  { sets, problems }: CheckedBundle,
  { cachedRulings = 10_000, maxSharedPolicies = 64 }: EngineOptions = {},
): CompiledBundle {
  return problems.length > 0
    ? { problems }
    : { engine: new Engine(bundle, sets, { cachedRulings, maxSharedPolicies }) };
}

class Engine implements CompiledEngine {
  readonly revision: string;
  readonly content: string;
  readonly policies: readonly CompiledPolicy[];
  readonly #bundle: PolicyBundle;
  readonly #sets: EngineSets;
  /** By name of the tenant's set. */
  readonly #plans: ReadonlyMap<string, PlansByAction>;
  readonly #cache: DecisionCache<Ruling> | undefined;
  readonly #lookUpKeyReference: (tenant: TenantId, reference: string) => KeyReferenceStanding;

  constructor(
    bundle: PolicyBundle,
    sets: ReadonlyMap<string, readonly CheckedPolicy[]>,
    { cachedRulings, maxSharedPolicies }: Required<EngineOptions>,
  ) {
    this.#bundle = bundle;
    this.content = bundleContent(bundle);
    this.revision = revisionOf(this.content);
    this.policies = [...sets].flatMap(([set, policies]) => policies.map((policy) => ({ ...policy, set })));
    this.#sets = new EngineSets(sets, bundle.schema);
    this.#cache = cachedRulings > 0 ? new DecisionCache(cachedRulings) : undefined;
    this.#lookUpKeyReference = keyReferenceLookup(bundle.keyReferences);
    const layer = (place: LayerSet["layer"], set: string): LayerSet => ({
      layer: place,
      set,
      policies: new Map((sets.get(set) ?? []).map((policy) => [policy.id, policy])),
    });
    const platform = layer("platform", bundle.manifest.platform);
    const isShared = platform.policies.size <= maxSharedPolicies;
    const plan = (set: string): PlansByAction => {
      const names = [platform.set, set];
      const evaluate = isShared ? this.#sets.together(names) : this.#sets.apart(names);
      return plansOf([platform, layer("tenant", set)], evaluate, bundle);
    };
    this.#plans = new Map([...new Set(Object.values(bundle.manifest.tenants))].map((set) => [set, plan(set)]));
  }

  setOf(layer: "platform" | "tenant", tenant: TenantId): string | undefined {
    const { platform, tenants } = this.#bundle.manifest;
    if (layer === "platform") return platform;
    return Object.hasOwn(tenants, tenant) ? tenants[tenant] : tenants[otherTenants];
  }

  explain(query: PolicyQuery): Explanation {
    const { layers = [] } = this.#planOf(query) ?? {};
    return explain(layers, (set, facts) => this.#sets.evaluate(set, facts), query, this.decide(query));
  }

  decide(query: PolicyQuery): PolicyDecision {
    const plan = this.#planOf(query);
    if (plan === undefined) return this.#deny(query, [reasonOf("platform", noPolicySet)], []);
    const ruling = this.#rule(plan, query);
    const standing = this.#standingOf(query);
    if (standing === "another_tenant") {
      const reason = reasonOf("platform", keyReferenceOfAnotherTenant);
      const reasons = ruling.allow ? [reason] : [...ruling.reasons, reason].sort();
      return this.#deny(query, reasons, plan.inputs, ruling.allow ? undefined : ruling);
    }
    if (!ruling.allow) return this.#deny(query, ruling.reasons, plan.inputs, ruling);
    const required = ruling.guidance.lists.required_scopes ?? [];
    if (!required.every((scope) => query.caller.scopes.includes(scope))) {
      const guidance = { scalars: {}, lists: { required_scopes: required } };
      return this.#deny(query, [reasonOf("platform", requiredScopeMissing)], plan.inputs, { guidance });
    }
    return {
      allow: true,
      reasons: ruling.reasons,
      policyRevision: this.revision,
      inputs: plan.inputs,
      guidance: guidanceOfAllow(query, ruling.guidance, this.#bundle.guidance, standing),
    };
  }

  release(): void {
    this.#sets.release();
    this.#cache?.clear();
  }

  #planOf({ caller, action }: PolicyQuery): Plan | undefined {
    const set = this.setOf("tenant", caller.tenantId);
    return set === undefined ? undefined : this.#plans.get(set)?.[action];
  }

  #rule(plan: Plan, query: PolicyQuery): Ruling {
    const key = this.#cache === undefined ? "" : plan.key(query);
    const known = this.#cache?.get(key);
    if (known !== undefined) return known;
    const ruling = rule(plan.layers, plan.evaluate(toFacts(query)), this.#bundle.strictness);
    if (!ruling.failed) this.#cache?.set(key, ruling);
    return ruling;
  }

  #standingOf({ caller, claimed }: PolicyQuery): KeyReferenceStanding {
    return claimed.key_reference === undefined
      ? "unmanaged"
      : this.#lookUpKeyReference(caller.tenantId, claimed.key_reference);
  }

  #deny(
    query: PolicyQuery,
    reasons: readonly string[],
    inputs: readonly string[],
    { guidance }: Pick<Ruling, "guidance"> = { guidance: { scalars: {}, lists: {} } },
  ): PolicyDecision {
    return {
      allow: false,
      reasons,
      policyRevision: this.revision,
      inputs,
      guidance: guidanceOfDeny(query, guidance, this.#bundle.guidance),
    };
  }
}
