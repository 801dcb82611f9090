/**
 * The Cedar sets of one engine, given back together.
 *
 * Layers are evaluated each by itself in meaning, but where that tells the same in one call to Cedar: most of a call's
 * cost is that Cedar is told the facts. Ids of the joint set say which layer a policy is of, and what Cedar names is
 * enough to tell the layers' outcomes apart:
 *
 * - where any policy fails, all that failed are named, so each layer knows its own errors;
 * - where Cedar allows, every permit that holds is named and no forbid holds, so a layer allows if it is named at all;
 * - where Cedar denies, every forbid that holds is named. A layer that none is of allows, or denies because no permit
 *   holds; which of the two is open, and no matter: the other layer denies, and what denies without a policy has no
 *   reasons to add.
 */
import type { CheckedPolicy } from "./check-set.ts";
import type { Facts } from "./facts.ts";
import { type Evaluation, PreparedSet } from "./prepared-set.ts";

/** Evaluates layers. One evaluation each, in their order. Does not throw. */
export type EvaluateLayers = (facts: Facts) => readonly Evaluation[];

/** Stands between a layer's position and the policy's id, which does not hold it. */
const separator = "/";

export class EngineSets {
  readonly #policies: ReadonlyMap<string, readonly CheckedPolicy[]>;
  readonly #schema: string;
  readonly #alone = new Map<string, PreparedSet>();
  readonly #joint: PreparedSet[] = [];
  #released = false;

  /** Checked policies by name of their set. */
  constructor(policies: ReadonlyMap<string, readonly CheckedPolicy[]>, schema: string) {
    this.#policies = policies;
    this.#schema = schema;
  }

  /** Evaluates a set by itself. The first time costs more: it is then that Cedar parses the set. Does not throw. */
  evaluate(set: string, facts: Facts): Evaluation {
    return this.#released ? { outcome: "error", policyIds: [] } : this.#preparedAlone(set).evaluate(facts);
  }

  /** Evaluates each layer, given by its set, in a call of its own. */
  apart(layers: readonly string[]): EvaluateLayers {
    const prepared = layers.map((set) => this.#preparedAlone(set));
    return (facts) => prepared.map((layer) => layer.evaluate(facts));
  }

  /** Evaluates all layers in one call. For each, the outcome is the one that `apart` gives, or open as said above. */
  together(layers: readonly string[]): EvaluateLayers {
    const texts = layers.flatMap((set, layer) =>
      this.#policiesOf(set).map(({ id, text }) => [`${layer}${separator}${id}`, text] as const),
    );
    const prepared = new PreparedSet(Object.fromEntries(texts), this.#schema);
    this.#joint.push(prepared);
    return (facts) => tellApart(prepared.evaluate(facts), layers.length);
  }

  /** Later evaluations are errors. Idempotent. */
  release(): void {
    this.#released = true;
    for (const prepared of [...this.#alone.values(), ...this.#joint]) prepared.release();
  }

  #policiesOf(set: string): readonly CheckedPolicy[] {
    return this.#policies.get(set) ?? [];
  }

  #preparedAlone(set: string): PreparedSet {
    const known = this.#alone.get(set);
    if (known !== undefined) return known;
    const texts = Object.fromEntries(this.#policiesOf(set).map(({ id, text }) => [id, text]));
    const prepared = new PreparedSet(texts, this.#schema);
    this.#alone.set(set, prepared);
    return prepared;
  }
}

function tellApart({ outcome, policyIds }: Evaluation, layers: number): readonly Evaluation[] {
  const ids: string[][] = Array.from({ length: layers }, () => []);
  for (const id of policyIds) {
    const end = id.indexOf(separator);
    ids[Number(id.slice(0, end))]?.push(id.slice(end + 1));
  }
  // An error without a policy is one of the facts: no layer could be asked.
  const isOfFacts = outcome === "error" && policyIds.length === 0;
  return ids.map((own) => ({ outcome: own.length > 0 || isOfFacts ? outcome : "deny", policyIds: own }));
}
