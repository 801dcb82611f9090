/**
 * Statements to prove of two bundles about one action of tenants with the same sets: that policies allow the same
 * requests, and give the same guidance. Guidance is merged from the parts that deciding policies give
 * (`guidance.ts`), so it is the same if, for each part, some policy with it decides for the same requests.
 */
import canonicalize from "canonicalize";
import type { CheckedPolicy } from "../check/check-policy.ts";
import type { Formula, Statement } from "./prover-wire.ts";
import { isGuided, type SideLayer } from "./side.ts";

/** Subject of two statements, one for each bundle. */
export interface StatementPair {
  readonly about: "decision" | "guidance";
  readonly statements: readonly [Statement, Statement];
  /** Pairs about only the policies that differ, which imply the pair. Empty if all policies differ. */
  readonly sufficient: readonly (readonly [Statement, Statement])[];
}

/**
 * The pairs that must hold for the same requests, without those that do by their form alone.
 *
 * @param layers that decide, on both sides; undefined if there are none, so that everything is denied
 * @param isOnBehalfOf whether the requests are about another subject than the caller
 * @param indexOf index of a policy's conditions, for the prover
 */
export function statementPairs(
  layers: readonly [readonly SideLayer[] | undefined, readonly SideLayer[] | undefined],
  isOnBehalfOf: boolean,
  indexOf: (text: string) => number,
): readonly StatementPair[] {
  const counting = layers.map((side) => side?.map((layer) => countingPolicies(layer, isOnBehalfOf)));
  const [old, next] = counting.map((side) => statementOf(side, indexOf)) as [Deciding, Deciding];
  const pairs = [pairOf("decision", old.allows, next.allows)];
  for (const said of new Set([...old.guided.keys(), ...next.guided.keys()])) {
    pairs.push(pairOf("guidance", old.guided.get(said) ?? never, next.guided.get(said) ?? never));
  }
  return pairs.filter(({ statements: [one, other] }) => JSON.stringify(one) !== JSON.stringify(other));
}

/** A statement over lists of policies: whether all of them can be evaluated, and whether any of each applies. */
interface Rule extends Statement {
  readonly lists: readonly (readonly number[])[];
}

interface Deciding {
  readonly allows: Rule;
  /** When some policy with this guidance decides, by effect and guidance. */
  readonly guided: ReadonlyMap<string, Rule>;
}

const never: Rule = { evaluable: [], holds: { any: [] }, lists: [] };

function pairOf(about: StatementPair["about"], one: Rule, other: Rule): StatementPair {
  const statements = [one, other].map(({ evaluable, holds }) => ({ evaluable, holds })) as [Statement, Statement];
  return { about, statements, sufficient: sufficientPairs(one, other) };
}

/** Shared policies act the same on both sides, so it suffices that the other ones do. */
function sufficientPairs(one: Rule, other: Rule): readonly (readonly [Statement, Statement])[] {
  const isShared = without(one.evaluable, other.evaluable).length < one.evaluable.length;
  if (!isShared || one.lists.length !== other.lists.length) return [];
  const pairs = one.lists.map((list, at) => {
    const [removed, added] = [without(list, other.lists[at] ?? []), without(other.lists[at] ?? [], list)];
    return [anyApplies(removed), anyApplies(added)] as const;
  });
  const removed = { evaluable: without(one.evaluable, other.evaluable), holds: { all: [] } };
  const added = { evaluable: without(other.evaluable, one.evaluable), holds: { all: [] } };
  return [...pairs, [removed, added] as const].filter(
    ([before, after]) => JSON.stringify(before) !== JSON.stringify(after),
  );
}

function without(indices: readonly number[], others: readonly number[]): readonly number[] {
  const left = new Set(others);
  return indices.filter((index) => !left.has(index));
}

function anyApplies(evaluable: readonly number[]): Statement {
  return { evaluable, holds: any(evaluable) };
}

function countingPolicies({ policies }: SideLayer, isOnBehalfOf: boolean): readonly CheckedPolicy[] {
  return policies.filter(({ countsOnBehalfOf }) => !isOnBehalfOf || countsOnBehalfOf);
}

function statementOf(
  layers: readonly (readonly CheckedPolicy[])[] | undefined,
  indexOf: (text: string) => number,
): Deciding {
  if (layers === undefined) return { allows: never, guided: new Map() };
  const indicesOf = (policies: readonly CheckedPolicy[], effect?: CheckedPolicy["effect"]) =>
    sorted(policies.filter((policy) => policy.effect === (effect ?? policy.effect)).map(({ text }) => indexOf(text)));
  const all = layers.flat();
  // One failing policy denies everything.
  const evaluable = indicesOf(all);
  const permits = layers.map((policies) => indicesOf(policies, "permit"));
  const forbids = indicesOf(all, "forbid");
  const isOpen = permits.every((indices) => indices.length > 0);
  const holds: Formula = { all: [...permits.map(any), { not: any(forbids) }] };
  const allows = isOpen ? { evaluable, holds, lists: [...permits, forbids] } : never;
  const guided = new Map<string, Rule>();
  const groups = Map.groupBy(
    all.filter(isGuided),
    ({ effect, guidance }) => canonicalize([effect, guidance]) as string,
  );
  for (const [said, policies] of groups) {
    const saying = indicesOf(policies);
    // A permit decides if it applies and everything is allowed; a forbid whenever it applies.
    const isPermit = policies[0]?.effect === "permit";
    if (!isPermit) guided.set(said, { evaluable, holds: any(saying), lists: [saying] });
    else if (isOpen)
      guided.set(said, { evaluable, holds: { all: [holds, any(saying)] }, lists: [...allows.lists, saying] });
  }
  return { allows, guided };
}

function any(indices: readonly number[]): Formula {
  return { any: indices.map((applies) => ({ applies })) };
}

function sorted(indices: readonly number[]): readonly number[] {
  return [...new Set(indices)].sort((a, b) => a - b);
}
