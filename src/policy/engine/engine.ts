/** Compiles a bundle to an engine. */
import { atOnce, inTurns } from "../../base/timers.ts";
import { type ComparedBundle, checkBundle, compareBundle, type IndexedBundle, indexed } from "../check/check.ts";
import { EntityTable } from "../evaluate/entity-table.ts";
import { identify, type PolicyBundle } from "../load/bundle.ts";
import { inputCatalogue } from "../model/inputs.ts";
import type { PolicyProblem } from "../model/problem.ts";
import { BundleEngine, type CompiledEngine } from "./bundle-engine.ts";
import type { LayerSet } from "./combined-decision.ts";
import { EngineSets, type Evaluator } from "./engine-sets.ts";
import { type PlansByAction, plansOf } from "./plan.ts";

export interface EngineOptions {
  /** Cached decisions: 0 for none, which changes no answer. Default 10,000, about 20 MB when full. */
  readonly cachedDecisions?: number;
  /** Default `compiled`. */
  readonly evaluator?: Evaluator;
  /** Called with differences between Cedar and the compiled policies, if both are evaluated. */
  readonly onDisagreement?: (disagreement: string) => void;
}

/** An engine, or all problems of its bundle. */
export type CompiledBundle =
  | { readonly engine: CompiledEngine; readonly problems?: never }
  | { readonly engine?: never; readonly problems: readonly PolicyProblem[] };

/** Compiles a bundle, or lists all of its problems. */
export function compilePolicyBundle(bundle: PolicyBundle, options: EngineOptions = {}): CompiledBundle {
  const { evaluator = "compiled" } = options;
  // If Cedar evaluates anyway, comparing is unnecessary.
  return atOnce(
    compile(bundle, evaluator === "compiled" ? compareBundle(bundle) : indexed(checkBundle(bundle)), options),
  );
}

/** The same for a bundle that was checked and compared before, in turns of the event loop. */
export function compileInTurns(
  bundle: PolicyBundle,
  checked: ComparedBundle,
  options: EngineOptions = {},
): Promise<CompiledBundle> {
  return inTurns(compile(bundle, checked, options));
}

/** Compiles in steps of about a millisecond; if only Cedar evaluates, a step is a tenant's set, at 25 µs per policy. */
function* compile(
  bundle: PolicyBundle,
  { sets, problems, entities, disagreements = new Map() }: IndexedBundle & Partial<ComparedBundle>,
  { cachedDecisions = 10_000, evaluator = "compiled", onDisagreement = () => {} }: EngineOptions,
): Generator<undefined, CompiledBundle> {
  if (problems.length > 0) return { problems };
  const identity = yield* identify(bundle);
  const engineSets = new EngineSets(sets, { evaluator, onCedar: new Set(disagreements.keys()), onDisagreement });
  const catalogue = inputCatalogue(bundle);
  const declared = bundle.entities;
  const source = declared && { declared, table: yield* EntityTable.from(entities ?? "") };
  const layer = (name: LayerSet["layer"], set: string): LayerSet => ({
    layer: name,
    set,
    policies: sets.get(set)?.policies ?? [],
  });
  const platform = layer("platform", bundle.manifest.platform);
  const plans = new Map<string, PlansByAction>();
  for (const set of new Set(Object.values(bundle.manifest.tenants))) {
    const evaluate = engineSets.layers([platform.set, set]);
    plans.set(set, yield* plansOf([platform, layer("tenant", set)], evaluate, bundle, catalogue, source));
  }
  const parts = { bundle, identity, policies: sets, sets: engineSets, plans, catalogue, source, cachedDecisions };
  return { engine: new BundleEngine(parts) };
}
