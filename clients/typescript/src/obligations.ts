/** What a decision permits a program that meets only these obligations. */
import type { Obligation } from "../../../gen/platform/sdk/v1/protection_pb.ts";

/** Ids that a program meets; or each with its known parameters, `true` for any. */
export type UnderstoodObligations = readonly string[] | Readonly<Record<string, readonly string[] | true>>;

/** A decision of any of the three calls. */
export interface Decision {
  readonly allow: boolean;
  readonly reasons: readonly string[];
  readonly obligations: readonly Pick<Obligation, "id" | "parameters">[];
}

/** A denial, or a decision with obligations that the program does not meet. */
export class NotPermitted extends Error {
  override readonly name = "NotPermitted";
  /** Ids of the policies that decided. */
  readonly reasons: readonly string[];
  /** Ids of unmet obligations; empty for a denial. */
  readonly unknownObligations: readonly string[];

  constructor(reasons: readonly string[], unknownObligations: readonly string[]) {
    const why = unknownObligations.length > 0 ? ["unknown obligations", ...unknownObligations] : reasons;
    super(`the decision does not permit: ${why.join(" ")}`);
    this.reasons = reasons;
    this.unknownObligations = unknownObligations;
  }
}

/** Ids for `understood_obligations` of a request. */
export function obligationIds(understood: UnderstoodObligations): string[] {
  return isList(understood) ? [...understood] : Object.keys(understood);
}

/** Whether the decision allows, with only understood obligations. False without a decision. */
export function permitted(decision: Decision | undefined, understood: UnderstoodObligations = []): boolean {
  return decision?.allow === true && unknownObligations(decision, understood).length === 0;
}

/**
 * Returns the obligations to meet before acting on the decision.
 *
 * @throws NotPermitted unless the decision is `permitted`
 */
export function requireAllow<Of extends Decision>(
  decision: Of | undefined,
  understood: UnderstoodObligations = [],
): Of["obligations"] {
  if (decision === undefined || !permitted(decision, understood)) {
    const unknown = decision?.allow === true ? unknownObligations(decision, understood) : [];
    throw new NotPermitted(decision?.reasons ?? [], unknown);
  }
  return decision.obligations;
}

function unknownObligations({ obligations }: Decision, understood: UnderstoodObligations): string[] {
  const known = new Map(isList(understood) ? understood.map((id) => [id, true] as const) : Object.entries(understood));
  const isUnknown = ({ id, parameters }: Decision["obligations"][number]) => {
    const names = known.get(id);
    return names === undefined || (names !== true && Object.keys(parameters).some((name) => !names.includes(name)));
  };
  return [...new Set(obligations.filter(isUnknown).map(({ id }) => id))];
}

function isList(understood: UnderstoodObligations): understood is readonly string[] {
  return Array.isArray(understood);
}
