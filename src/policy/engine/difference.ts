/** Differences between two decisions on one question. */
import { isDeepStrictEqual } from "node:util";
import type { Guidance, PolicyDecision } from "../model/decision.ts";

/**
 * How a second decision differs from a first. Only the most severe difference counts: it denies what was allowed,
 * allows what was denied, gives other guidance, or gives other reasons.
 */
export const differenceKinds = ["denies", "allows", "guides", "reasons"] as const;
export type DifferenceKind = (typeof differenceKinds)[number];

export interface DecisionDifference {
  readonly kind: DifferenceKind;
  /** Members of the guidance that differ, sorted; empty if one of the two denies. */
  readonly guidance: readonly (keyof Guidance | "obligations" | "alerts")[];
}

/** Undefined if they are the same. Revisions and inputs are not compared. */
export function differenceOf(first: PolicyDecision, second: PolicyDecision): DecisionDifference | undefined {
  if (first.allow !== second.allow) return { kind: first.allow ? "denies" : "allows", guidance: [] };
  const names = new Set([...Object.keys(first.guidance), ...Object.keys(second.guidance)] as (keyof Guidance)[]);
  const guidance: DecisionDifference["guidance"][number][] = [...names].filter(
    (name) => !isDeepStrictEqual(first.guidance[name], second.guidance[name]),
  );
  for (const name of ["obligations", "alerts"] as const) {
    if (!isDeepStrictEqual(first[name], second[name])) guidance.push(name);
  }
  guidance.sort();
  if (guidance.length > 0) return { kind: "guides", guidance };
  return isDeepStrictEqual(first.reasons, second.reasons) ? undefined : { kind: "reasons", guidance };
}
