/** The plan of an action, compiled before any query. */
import { LRUCache } from "lru-cache";
import { joinInputs, joinUses } from "../check/reads.ts";
import { cedarRequestBuilder } from "../evaluate/cedar-request.ts";
import type { EntitySource } from "../evaluate/entity-request.ts";
import { type Paths, Scene } from "../evaluate/scene.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import type { PolicyAction, PolicyQuery } from "../model/decision.ts";
import { type InputCatalogue, onBehalfOfName, readsRegistered } from "../model/inputs.ts";
import { policyActions } from "../model/schema.ts";
import { type CombinedDecision, combineLayers } from "./combined-decision.ts";
import type { LayerSet } from "./engine-set.ts";

/** One action under one pair of sets. */
export interface Plan {
  readonly decide: (query: PolicyQuery) => CombinedDecision;
  /** Whether a policy reads registrations of the artifact. */
  readonly readsRegistered: boolean;
  /** Names of the inputs that can change the decision, sorted. */
  readonly inputs: readonly string[];
  /** Cache key: equal only for queries with the same combined decision. */
  readonly key: (query: PolicyQuery) => string;
}

export type PlansByAction = Readonly<Record<PolicyAction, Plan>>;

/** Plans every action under the layers of the bundle, one action per step. */
export function* plansOf(
  layers: readonly LayerSet[],
  paths: Paths,
  bundle: PolicyBundle,
  catalogue: InputCatalogue,
  source: EntitySource | undefined,
): Generator<undefined, PlansByAction> {
  const sets = layers.map(({ set }) => set.name);
  const plan = (action: PolicyAction): Plan => {
    const policies = layers.flatMap(({ set }) => set.policies).filter(({ actions }) => actions.has(action));
    const read = joinInputs(
      policies.map(({ reads }) => reads),
      catalogue,
    );
    const buildRequest = cedarRequestBuilder(read, catalogue, {
      source,
      use: joinUses(policies.map(({ entities }) => entities)),
    });
    const scope = [action, ...sets].join(" ");
    // Which permits count depends on whether there is a subject, even if no policy reads it.
    const readers = [onBehalfOfName, ...read].map((name) => catalogue.reader(name));
    // Checked after the policies for every query, so not part of the key.
    const afterwards = [
      ...(policies.some(({ guidance }) => guidance.lists.required_scopes !== undefined) ? ["caller.scopes"] : []),
      ...(bundle.keyReferences.some(({ tenants }) => tenants !== undefined) ? ["key_reference"] : []),
    ];
    return {
      decide(query) {
        const request = buildRequest(query);
        const scene = request && new Scene(request, paths);
        const results = layers.map(({ set }) => set.evaluate(scene, query.onBehalfOf !== undefined));
        return combineLayers(layers, results, bundle.strictness, (input) => catalogue.reader(input)(query));
      },
      readsRegistered: readsRegistered(read),
      inputs: [...new Set([...read, ...afterwards])].sort(),
      // JSON writes an absent input as null, which no input can be.
      key: (query) => JSON.stringify([scope, ...readers.map((reader) => reader(query))]),
    };
  };
  const plans = {} as Record<PolicyAction, Plan>;
  for (const action of policyActions) {
    plans[action] = plan(action);
    yield;
  }
  return plans;
}

/*
 * A cache of combined decisions. They are a pure function of the inputs that the sets read, so exactly those inputs are
 * the key. Each engine has its own cache, so the revision is not part of the key.
 */

/** Most decisions: about 20 MB. */
const maxDecisions = 10_000;
/** Longer keys are not cached: they have many labels and attributes, which seldom repeat. */
const maxKeyLength = 4096;

/** Bounded by the number of decisions and by total key length; the least recently used are evicted. */
export function decisionCache(): LRUCache<string, CombinedDecision> {
  return new LRUCache({
    max: maxDecisions,
    // Keys take at most 512 characters on average.
    maxSize: maxDecisions * 512,
    maxEntrySize: maxKeyLength,
    sizeCalculation: (_value, key) => key.length,
  });
}
