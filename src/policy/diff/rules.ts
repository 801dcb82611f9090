/** What policies say, as tables that Cedar itself fills: for which values each of them applies. */
import type { CheckedPolicy } from "../check/check-policy.ts";
import { cedarRequestBuilder } from "../engine/cedar-request.ts";
import type { PolicyQuery } from "../engine/decision.ts";
import { PreparedSet } from "../engine/prepared-set.ts";
import type { Side } from "./side.ts";
import type { Row, Rule } from "./solver.ts";
import type { Variable } from "./variables.ts";

/** Rows that a table may have; of a larger one a part is looked at. */
export const maxRows = 4_096;
/** The same of a table that decides nothing for certain. */
const maxTriedRows = 256;

export interface PolicyRules {
  /** When it applies. */
  readonly applies: Rule;
  /** When it fails, so that everything is denied; absent where it never does. */
  readonly fails?: Rule;
  /** Why not every row was looked at; absent where all were. */
  readonly problem?: string;
}

/** What a policy says of a question by itself. */
export type Verdict = "applies" | "fails" | "otherwise";

/** Asks Cedar about the policy alone. `release` gives its memory back. */
export function verdictsOf(
  policy: CheckedPolicy,
  { catalogue, engine }: Side,
): { readonly verdictOn: (query: PolicyQuery) => Verdict; readonly release: () => void } {
  const known = { source: engine.entities, use: policy.entities };
  const build = cedarRequestBuilder(policy.reads, policy.namedActions, catalogue, known);
  const prepared = new PreparedSet([policy.text]);
  return {
    verdictOn(query) {
      if (query.onBehalfOf !== undefined && !policy.countsOnBehalfOf) return "otherwise";
      const { outcome, policies } = prepared.evaluate(build(query));
      if (outcome === "error") return "fails";
      return policies.length > 0 ? "applies" : "otherwise";
    },
    release: () => prepared.release(),
  };
}

/**
 * @param isExact whether the values stand for all
 * @param queryOf the question in which the variables have the values; undefined where no request has them
 */
export function policyRules(
  policy: CheckedPolicy,
  indices: readonly number[],
  variables: readonly Variable[],
  side: Side,
  isExact: boolean,
  queryOf: (indices: readonly number[], row: Row) => PolicyQuery | undefined,
): PolicyRules {
  const { verdictOn, release } = verdictsOf(policy, side);
  const sizes = indices.map((index) => variables[index]?.values.length ?? 0);
  const { rows, isWhole } = rowsOf(sizes, isExact ? maxRows : maxTriedRows);
  const by: Record<Verdict, Row[]> = { applies: [], fails: [], otherwise: [] };
  let problem = isWhole ? undefined : "too many combinations of values";
  for (const row of rows) {
    const query = queryOf(indices, row);
    if (query === undefined) problem = "values that no question can have";
    else by[verdictOn(query)].push(row);
  }
  release();
  const { applies, fails, otherwise } = by;
  return {
    applies: { variables: indices, applies, otherwise: [...otherwise, ...fails] },
    ...(fails.length > 0 && { fails: { variables: indices, applies: fails, otherwise: [...otherwise, ...applies] } }),
    ...(problem !== undefined && { problem }),
  };
}

/** All rows of a table; where they are too many, those in which at most two values are not the first. */
export function rowsOf(
  sizes: readonly number[],
  maximum: number = maxRows,
): { readonly rows: readonly Row[]; readonly isWhole: boolean } {
  if (sizes.reduce((product, size) => product * size, 1) <= maximum) {
    let rows: Row[] = [[]];
    for (const size of sizes) rows = rows.flatMap((row) => range(size).map((value) => [...row, value]));
    return { rows, isWhole: true };
  }
  const others = (row: Row, from: number) =>
    sizes.flatMap((size, variable) =>
      variable < from ? [] : range(size).flatMap((value) => (value === 0 ? [] : [row.with(variable, value)])),
    );
  const none: Row = sizes.map(() => 0);
  const ones = others(none, 0).slice(0, maximum);
  const twos = ones.flatMap((row) => others(row, row.findLastIndex((value) => value !== 0) + 1).slice(0, maximum));
  return { rows: [none, ...ones, ...twos].slice(0, maximum), isWhole: false };
}

function range(size: number): readonly number[] {
  return Array.from({ length: size }, (_, index) => index);
}

/** A rule over the variables of several, which applies where `holds` says so; undefined where its table is too large. */
export function combinedRule(
  rules: readonly Rule[],
  extra: readonly number[],
  variables: readonly Variable[],
  holds: (applying: readonly boolean[], valueAt: (variable: number) => number) => boolean,
): Rule | undefined {
  const indices = [...new Set([...rules.flatMap((rule) => rule.variables), ...extra])];
  const { rows, isWhole } = rowsOf(indices.map((index) => variables[index]?.values.length ?? 0));
  if (!isWhole) return undefined;
  const known = rules.map((rule) => ({
    positions: rule.variables.map((variable) => indices.indexOf(variable)),
    applies: new Set(rule.applies.map(String)),
  }));
  const holding = (row: Row): boolean =>
    holds(
      known.map(({ positions, applies }) => applies.has(String(positions.map((position) => row[position])))),
      (variable) => row[indices.indexOf(variable)] as number,
    );
  return { variables: indices, applies: rows.filter(holding), otherwise: rows.filter((row) => !holding(row)) };
}
