/**
 * The Cedar sets of one engine, released together.
 *
 * Both layers are evaluated in one call to Cedar where possible, since the request is most of a call's cost. The
 * outcome is that of separate calls. The position of a policy in the joint set gives its layer, and the policies that
 * Cedar names are enough to split the outcome by layer:
 *
 * - where any policy fails, all that failed are named, so each layer knows its own errors;
 * - where Cedar allows, every permit that holds is named and no forbid holds, so a layer allows if it is named at all;
 * - where Cedar denies, every forbid that holds is named. A layer that none is of allows, or denies because no permit
 *   holds; which of the two is open, and no matter: the other layer denies, and what denies without a policy has no
 *   reasons to add.
 */
import type { CheckedPolicy } from "../check/check-policy.ts";
import type { CedarRequest } from "./cedar-request.ts";
import { PreparedSet, type SetResult } from "./prepared-set.ts";

/** Result of one layer. `error` where any policy could not be evaluated. */
export interface Evaluation {
  readonly outcome: SetResult["outcome"];
  /** Ids of the policies that decided, or that failed; in no particular order. */
  readonly policyIds: readonly string[];
}

/** Evaluates layers: one evaluation each, in their order; errors where there is no request. Does not throw. */
export type EvaluateLayers = (request: CedarRequest | undefined) => readonly Evaluation[];

export class EngineSets {
  readonly #policies: ReadonlyMap<string, readonly CheckedPolicy[]>;
  readonly #alone = new Map<string, PreparedSet>();
  readonly #joint: PreparedSet[] = [];
  #released = false;

  /** Checked policies by name of their set. */
  constructor(policies: ReadonlyMap<string, readonly CheckedPolicy[]>) {
    this.#policies = policies;
  }

  /** Evaluates a set by itself. The first time costs more: it is then that Cedar parses the set. Does not throw. */
  evaluate(set: string, request: CedarRequest | undefined): Evaluation {
    return this.#released ? { outcome: "error", policyIds: [] } : this.#alonePrepared(set)(request);
  }

  /** Evaluates each layer, given by its set, in a call of its own. */
  apart(layers: readonly string[]): EvaluateLayers {
    const evaluates = layers.map((set) => this.#alonePrepared(set));
    return (request) => evaluates.map((evaluate) => evaluate(request));
  }

  /** Evaluates all layers in one call. For each, the outcome is the one that `apart` gives, or open as said above. */
  together(layers: readonly string[]): EvaluateLayers {
    const policies = layers.flatMap((set, layer) => this.#policiesOf(set).map(({ id, text }) => ({ layer, id, text })));
    const prepared = new PreparedSet(policies.map(({ text }) => text));
    this.#joint.push(prepared);
    const owners = policies.map(({ layer, id }) => ({ layer, id }));
    return (request) => splitByLayer(prepared.evaluate(request), owners, layers.length);
  }

  /** Later evaluations are errors. Idempotent. */
  release(): void {
    this.#released = true;
    for (const prepared of [...this.#alone.values(), ...this.#joint]) prepared.release();
  }

  #policiesOf(set: string): readonly CheckedPolicy[] {
    return this.#policies.get(set) ?? [];
  }

  #alonePrepared(set: string): (request: CedarRequest | undefined) => Evaluation {
    const policies = this.#policiesOf(set);
    const prepared = this.#alone.get(set) ?? new PreparedSet(policies.map(({ text }) => text));
    this.#alone.set(set, prepared);
    return (request) => {
      const { outcome, policies: named } = prepared.evaluate(request);
      return { outcome, policyIds: named.map((position) => (policies[position] as CheckedPolicy).id) };
    };
  }
}

interface Owner {
  readonly layer: number;
  readonly id: string;
}

function splitByLayer(
  { outcome, policies }: SetResult,
  owners: readonly Owner[],
  layers: number,
): readonly Evaluation[] {
  const ids: string[][] = Array.from({ length: layers }, () => []);
  for (const position of policies) {
    const { layer, id } = owners[position] as Owner;
    (ids[layer] as string[]).push(id);
  }
  // An error without a policy is one of the request: no layer could be evaluated.
  const isOfRequest = outcome === "error" && policies.length === 0;
  return ids.map((own) => ({ outcome: own.length > 0 || isOfRequest ? outcome : "deny", policyIds: own }));
}
