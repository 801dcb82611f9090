/** The engine: a bundle, compiled so that it decides. */
import type { TenantId } from "../base/ids.ts";
import { bundleContent, type PolicyBundle, revisionOf } from "./bundle.ts";
import { type CheckedBundle, checkBundle } from "./check.ts";
import type { CheckedPolicy } from "./check-set.ts";
import type { PolicyDecision, PolicyEngine, PolicyQuery } from "./decision.ts";
import { DecisionCache } from "./decision-cache.ts";
import { type Explanation, explain } from "./explanation.ts";
import { toFacts } from "./facts.ts";
import { guidanceOfAllow, guidanceOfDeny } from "./guidance.ts";
import { type KeyReferenceStanding, keyReferenceLookup } from "./key-references.ts";
import { otherTenants } from "./manifest.ts";
import { type Plan, type PlansByAction, plansOf } from "./plan.ts";
import { PreparedSet } from "./prepared-set.ts";
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
  { cachedRulings = 10_000 }: EngineOptions = {},
): CompiledBundle {
  return problems.length > 0 ? { problems } : { engine: new Engine(bundle, sets, cachedRulings) };
}

class Engine implements CompiledEngine {
  readonly revision: string;
  readonly content: string;
  readonly policies: readonly CompiledPolicy[];
  readonly #bundle: PolicyBundle;
  readonly #prepared: readonly PreparedSet[];
  /** By name of the tenant's set. */
  readonly #plans: ReadonlyMap<string, PlansByAction>;
  readonly #cache: DecisionCache<Ruling> | undefined;
  readonly #lookUpKeyReference: (tenant: TenantId, reference: string) => KeyReferenceStanding;

  constructor(bundle: PolicyBundle, sets: ReadonlyMap<string, readonly CheckedPolicy[]>, cachedRulings: number) {
    this.#bundle = bundle;
    this.content = bundleContent(bundle);
    this.revision = revisionOf(this.content);
    this.policies = [...sets].flatMap(([set, policies]) => policies.map((policy) => ({ ...policy, set })));
    const prepared = new Map(
      [...sets].map(([name, policies]) => {
        const texts = Object.fromEntries(policies.map(({ id, text }) => [id, text]));
        return [name, new PreparedSet(texts, bundle.schema)] as const;
      }),
    );
    this.#prepared = [...prepared.values()];
    this.#cache = cachedRulings > 0 ? new DecisionCache(cachedRulings) : undefined;
    this.#lookUpKeyReference = keyReferenceLookup(bundle.keyReferences);
    const layer = (place: LayerSet["layer"], set: string): LayerSet => ({
      layer: place,
      set,
      policies: new Map((sets.get(set) ?? []).map((policy) => [policy.id, policy])),
      prepared: prepared.get(set) as PreparedSet,
    });
    const platform = layer("platform", bundle.manifest.platform);
    this.#plans = new Map(
      [...new Set(Object.values(bundle.manifest.tenants))].map((set) => [
        set,
        plansOf([platform, layer("tenant", set)], bundle),
      ]),
    );
  }

  setOf(layer: "platform" | "tenant", tenant: TenantId): string | undefined {
    const { platform, tenants } = this.#bundle.manifest;
    if (layer === "platform") return platform;
    return Object.hasOwn(tenants, tenant) ? tenants[tenant] : tenants[otherTenants];
  }

  explain(query: PolicyQuery): Explanation {
    return explain(this.#planOf(query)?.layers ?? [], query, this.decide(query));
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
    for (const prepared of this.#prepared) prepared.release();
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
    const ruling = rule(plan.layers, toFacts(query), this.#bundle.strictness);
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
