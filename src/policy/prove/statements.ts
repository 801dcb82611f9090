/**
 * What is proven of two bundles about one action of tenants that have the same sets: that policies allow the same requests,
 * and that the same guidance follows. Guidance is merged from what deciding policies say, each of it once
 * (`guidance-merge.ts`), so it is the same where, of everything that is said, some policy that says it decides for the same
 * requests.
 */
import canonicalize from "canonicalize";
import type { CheckedPolicy } from "../check/check-policy.ts";
import { isGuided } from "../compare/policy-tables.ts";
import type { SideLayer } from "../compare/side.ts";
import type { Formula, Statement } from "./wire.ts";

/** What two statements, of what was and of what is to be, are about. */
export interface StatementPair {
  readonly about: "decision" | "guidance";
  readonly statements: readonly [Statement, Statement];
}

/**
 * The pairs that are to hold for the same requests; those that do by their form alone are left out.
 *
 * @param layers that decide, on both sides; undefined where there are none, so that everything is denied
 * @param isOnBehalfOf whether the requests are about somebody else than the caller
 * @param indexOf index of a policy's text, for the prover
 */
export function statementPairs(
  layers: readonly [readonly SideLayer[] | undefined, readonly SideLayer[] | undefined],
  isOnBehalfOf: boolean,
  indexOf: (text: string) => number,
): readonly StatementPair[] {
  const counting = layers.map((side) => side?.map((layer) => countingPolicies(layer, isOnBehalfOf)));
  const [old, next] = counting.map((side) => statementOf(side, indexOf)) as [Deciding, Deciding];
  const pairs: StatementPair[] = [{ about: "decision", statements: [old.allows, next.allows] }];
  for (const said of new Set([...old.guided.keys(), ...next.guided.keys()])) {
    const statements = [old, next].map((side) => side.guided.get(said) ?? never) as [Statement, Statement];
    pairs.push({ about: "guidance", statements });
  }
  return pairs.filter(({ statements: [one, other] }) => JSON.stringify(one) !== JSON.stringify(other));
}

interface Deciding {
  readonly allows: Statement;
  /** When some policy decides that says this, by effect and what is said. */
  readonly guided: ReadonlyMap<string, Statement>;
}

const never: Statement = { evaluable: [], holds: { any: [] } };

function countingPolicies({ policies }: SideLayer, isOnBehalfOf: boolean): readonly CheckedPolicy[] {
  return policies.filter(({ countsOnBehalfOf }) => !isOnBehalfOf || countsOnBehalfOf);
}

function statementOf(
  layers: readonly (readonly CheckedPolicy[])[] | undefined,
  indexOf: (text: string) => number,
): Deciding {
  if (layers === undefined) return { allows: never, guided: new Map() };
  const applying = (policies: readonly CheckedPolicy[], effect: CheckedPolicy["effect"]): readonly Formula[] =>
    sorted(policies.filter((policy) => policy.effect === effect).map(({ text }) => indexOf(text))).map((applies) => ({
      applies,
    }));
  const all = layers.flat();
  // One policy that fails denies everything, whatever the others say.
  const evaluable = sorted(all.map(({ text }) => indexOf(text)));
  const permitted = layers.map((policies): Formula => ({ any: applying(policies, "permit") }));
  const isOpen = layers.every((policies) => policies.some(({ effect }) => effect === "permit"));
  const holds: Formula = isOpen ? { all: [...permitted, { not: { any: applying(all, "forbid") } }] } : never.holds;
  const allows = isOpen ? { evaluable, holds } : never;
  const guided = new Map<string, Statement>();
  const groups = Map.groupBy(
    all.filter(isGuided),
    ({ effect, guidance }) => canonicalize([effect, guidance]) as string,
  );
  for (const [said, policies] of groups) {
    const some: Formula = { any: [...applying(policies, "permit"), ...applying(policies, "forbid")] };
    // A permit decides where it applies and everything is allowed; a forbid wherever it applies.
    const isPermit = policies[0]?.effect === "permit";
    if (!isPermit) guided.set(said, { evaluable, holds: some });
    else if (isOpen) guided.set(said, { evaluable, holds: { all: [holds, some] } });
  }
  return { allows, guided };
}

function sorted(indices: readonly number[]): readonly number[] {
  return [...new Set(indices)].sort((a, b) => a - b);
}
