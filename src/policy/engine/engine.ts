/** Compiles a bundle to an engine, which decides queries: layers, key references, required scopes, obligations. */
import type { AttributeDeclarations } from "../../base/caller.ts";
import type { TenantId } from "../../base/ids.ts";
import { atOnce, inTurns } from "../../base/timers.ts";
import { type CheckedBundle, checkBundle } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-set.ts";
import type { EntitySource } from "../evaluate/entity-request.ts";
import { EntityTable } from "../evaluate/entity-table.ts";
import { Paths } from "../evaluate/scene.ts";
import { guidanceOfAllow, guidanceOfDeny } from "../guidance/guidance.ts";
import { type KeyReferenceStatus, keyReferenceLookup } from "../guidance/key-references.ts";
import { isUnderstood } from "../guidance/obligations.ts";
import { type BundleIdentity, type PolicyBundle, tenantSet } from "../load/bundle.ts";
import { ownReason, type PolicyDecision, type PolicyEngine, type PolicyQuery } from "../model/decision.ts";
import { type InputCatalogue, inputCatalogue } from "../model/inputs.ts";
import type { CombinedDecision } from "./combined-decision.ts";
import { EngineSet, type LayerSet } from "./engine-set.ts";
import { type Explanation, explain } from "./explanation.ts";
import { decisionCache, type Plan, type PlansByAction, plansOf } from "./plan.ts";

export interface EngineOptions {
  /** Whether decisions are cached, which changes no answer. Default: true. */
  readonly isCached?: boolean;
  /** The compiled policies, which is the default, or Cedar alone. */
  readonly evaluator?: "compiled" | "cedar";
}

/** The engine of a bundle without problems. Throws a TypeError for others. */
export function engineOf(bundle: PolicyBundle, options: EngineOptions = {}): CompiledEngine {
  return atOnce(compile(bundle, checkBundle(bundle), options));
}

/** The same for a bundle that was checked before, in turns of the event loop. */
export function compileInTurns(
  bundle: PolicyBundle,
  checked: CheckedBundle,
  options: EngineOptions = {},
): Promise<CompiledEngine> {
  return inTurns(compile(bundle, checked, options));
}

/** Compiles in steps of about a millisecond; for a set that only Cedar evaluates, a step takes 25 µs per policy. */
function* compile(
  bundle: PolicyBundle,
  { sets, problems, entities, disagreements, identity }: CheckedBundle,
  { isCached = true, evaluator }: EngineOptions,
): Generator<undefined, CompiledEngine> {
  if (problems.length > 0) throw new TypeError("a bundle without problems compiles");
  const paths = new Paths();
  const engineSets = new Map<string, EngineSet>();
  for (const [name, checked] of sets) {
    const isOnCedar = evaluator === "cedar" || disagreements.has(name);
    engineSets.set(name, new EngineSet(name, checked, isOnCedar ? undefined : paths));
    yield;
  }
  const catalogue = inputCatalogue(bundle);
  const declared = bundle.entities;
  const source = declared && { declared, table: yield* EntityTable.from(entities ?? "") };
  const plans = new Map<string, PlansByAction>();
  for (const own of new Set(Object.values(bundle.manifest.tenants)))
    plans.set(own, yield* plansOf(layersWith(own, bundle, engineSets), paths, bundle, catalogue, source));
  return new CompiledEngine({ bundle, sets: engineSets, plans, catalogue, source }, identity, isCached);
}

/** @param own set of the tenant; undefined if it has none */
function layersWith(
  own: string | undefined,
  { manifest }: PolicyBundle,
  sets: ReadonlyMap<string, EngineSet>,
): readonly LayerSet[] {
  const named = [["platform", manifest.platform] as const, ["tenant", own] as const];
  // A bundle without problems has every set that it names.
  return named.flatMap(([layer, name]) => (name === undefined ? [] : [{ layer, set: sets.get(name) as EngineSet }]));
}

/** A policy of a compiled bundle, for tests and explanations. */
export type CompiledPolicy = CheckedPolicy & { readonly set: string };

interface EngineParts {
  readonly bundle: PolicyBundle;
  /** By name. */
  readonly sets: ReadonlyMap<string, EngineSet>;
  /** By name of the tenant's set. */
  readonly plans: ReadonlyMap<string, PlansByAction>;
  /** Inputs that the bundle's policies can read. */
  readonly catalogue: InputCatalogue;
  /** Entities of the organisation; undefined if the bundle declares none. */
  readonly source: EntitySource | undefined;
}

/** An engine for one bundle. It belongs to the thread that compiled it. */
export class CompiledEngine implements PolicyEngine {
  readonly revision: string;
  /**
   * Text from which this engine can be compiled again (`parseBundleContent`), in UTF-8 and in shared memory. Its hash is
   * the revision.
   */
  readonly content: Uint8Array;
  readonly actions: PolicyEngine["actions"];
  /** Caller attributes that the bundle declares, by name. */
  readonly callerAttributes: AttributeDeclarations;
  /** Entities of the organisation; undefined if the bundle declares none. */
  readonly entities: EntitySource | undefined;
  readonly #parts: EngineParts;
  readonly #cache: ReturnType<typeof decisionCache> | undefined;
  readonly #lookUpKeyReference: (tenant: TenantId, reference: string) => KeyReferenceStatus;

  constructor(parts: EngineParts, { content, revision }: BundleIdentity, isCached: boolean) {
    this.revision = revision;
    this.content = content;
    this.actions = new Map(Object.entries(parts.bundle.actions ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));
    this.callerAttributes = parts.bundle.callerAttributes ?? {};
    this.entities = parts.source;
    this.#parts = parts;
    this.#cache = isCached ? decisionCache() : undefined;
    this.#lookUpKeyReference = keyReferenceLookup(parts.bundle.keyReferences);
  }

  /** All policies, by set and in the order of the files. A list that each call makes. */
  get policies(): readonly CompiledPolicy[] {
    return [...this.#parts.sets].flatMap(([set, { policies }]) => policies.map((policy) => ({ ...policy, set })));
  }

  /** The layers of a tenant: without a set of its own, the platform's alone, and everything is denied. */
  layersOf(tenant: TenantId): readonly LayerSet[] {
    return layersWith(tenantSet(this.#parts.bundle, tenant), this.#parts.bundle, this.#parts.sets);
  }

  /** Explains the decision. Slower than deciding. */
  explain(query: PolicyQuery): Explanation {
    const layers = this.#planOf(query) === undefined ? [] : this.layersOf(query.caller.tenantId);
    return explain(layers, query, this.decide(query), this.#parts.catalogue, this.entities);
  }

  decide(query: PolicyQuery): PolicyDecision {
    const plan = this.#planOf(query);
    if (plan === undefined) return this.#deny(query, [ownReason("no-policy-set")], []);
    const combined = this.#combine(plan, query);
    const { key_reference: reference } = query.claimed;
    const status = reference === undefined ? "unmanaged" : this.#lookUpKeyReference(query.caller.tenantId, reference);
    if (status === "another_tenant") {
      const reason = ownReason("key-reference-of-another-tenant");
      const reasons = combined.allow ? [reason] : [...combined.reasons, reason].sort();
      return this.#deny(query, reasons, plan.inputs, combined.allow ? undefined : combined);
    }
    if (!combined.allow) return this.#deny(query, combined.reasons, plan.inputs, combined);
    const required = combined.guidance.lists.required_scopes ?? [];
    if (!required.every((scope) => query.caller.scopes.includes(scope))) {
      const guidance = { scalars: {}, lists: { required_scopes: required } };
      return this.#deny(query, [ownReason("required-scope-missing")], plan.inputs, { guidance });
    }
    const { understoodObligations = [] } = query;
    const unknown = combined.obligations.filter((each) => !isUnderstood(each, understoodObligations));
    if (unknown.length > 0) {
      const ids = new Set(unknown.map(({ id }) => id));
      const warning = [`the request does not say that it understands ${[...ids].join(", ")}`];
      const reasons = [ownReason("obligation-not-understood")];
      const denial = this.#deny(query, reasons, plan.inputs, { guidance: { scalars: {}, lists: { warning } } });
      return { ...denial, unmet: unknown };
    }
    return {
      allow: true,
      reasons: combined.reasons,
      policyRevision: this.revision,
      inputs: plan.inputs,
      guidance: guidanceOfAllow(query, combined.guidance, this.#parts.bundle.guidance, status),
      obligations: combined.obligations,
      alerts: combined.guidance.lists.alert ?? [],
    };
  }

  readsRegistered(query: Pick<PolicyQuery, "caller" | "action">): boolean {
    return this.#planOf(query)?.readsRegistered ?? false;
  }

  /** Releases Cedar's sets, whose memory others can reuse; no decision may follow. Idempotent. */
  release(): void {
    for (const set of this.#parts.sets.values()) set.release();
    this.#cache?.clear();
  }

  #planOf({ caller, action }: Pick<PolicyQuery, "caller" | "action">): Plan | undefined {
    const set = tenantSet(this.#parts.bundle, caller.tenantId);
    return set === undefined ? undefined : this.#parts.plans.get(set)?.[action];
  }

  #combine(plan: Plan, query: PolicyQuery): CombinedDecision {
    const key = this.#cache === undefined ? "" : plan.key(query);
    const known = this.#cache?.get(key);
    if (known !== undefined) return known;
    const combined = plan.decide(query);
    if (!combined.failed) this.#cache?.set(key, combined);
    return combined;
  }

  #deny(
    query: PolicyQuery,
    reasons: readonly string[],
    inputs: readonly string[],
    { guidance, obligations = [] }: Pick<CombinedDecision, "guidance"> & Partial<CombinedDecision> = nothing,
  ): PolicyDecision {
    return {
      allow: false,
      reasons,
      policyRevision: this.revision,
      inputs,
      guidance: guidanceOfDeny(query, guidance, this.#parts.bundle.guidance),
      obligations,
      alerts: guidance.lists.alert ?? [],
    };
  }
}

const nothing = { guidance: { scalars: {}, lists: {} } };
