/** What two engines say differently to one question. */
import { isDeepStrictEqual } from "node:util";
import type { Guidance, PolicyDecision } from "../engine/decision.ts";

/**
 * How a second decision differs from a first, the gravest way only: it denies what was allowed, allows what was denied,
 * guides otherwise, or says the same for other reasons.
 */
export const differenceKinds = ["denies", "allows", "guides", "reasons"] as const;
export type DifferenceKind = (typeof differenceKinds)[number];

export interface DecisionDifference {
  readonly kind: DifferenceKind;
  /** Members of the guidance that differ, sorted; none where one of the two denies. */
  readonly guidance: readonly (keyof Guidance)[];
}

/** The difference; undefined where both say the same. Revision and inputs are not part of what is said. */
export function differenceOf(first: PolicyDecision, second: PolicyDecision): DecisionDifference | undefined {
  if (first.allow !== second.allow) return { kind: first.allow ? "denies" : "allows", guidance: [] };
  const names = new Set([...Object.keys(first.guidance), ...Object.keys(second.guidance)] as (keyof Guidance)[]);
  const guidance = [...names].filter((name) => !isDeepStrictEqual(first.guidance[name], second.guidance[name])).sort();
  if (guidance.length > 0) return { kind: "guides", guidance };
  return isDeepStrictEqual(first.reasons, second.reasons) ? undefined : { kind: "reasons", guidance };
}
