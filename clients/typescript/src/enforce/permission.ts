/** Whether an answer of the platform permits the work: only if it is unambiguous and can be met. */
import { EnforcementError } from "./errors.ts";
import type { Decision, Obligation, Profile } from "./platform.ts";

/** Meets an obligation with these parameters; anything but `true` means that it cannot be met. */
export type ObligationHandler = (parameters: Obligation["parameters"]) => boolean | Promise<boolean>;

/** Obligation: the event must reach the ledger within so many seconds. Without it, before anything is released. */
export const evidenceWithin = "evidence-within";

export interface Understanding {
  readonly obligations: ReadonlyMap<string, ObligationHandler>;
  /** Handling modes of this process. */
  readonly handlingModes: readonly string[];
  /** Library names by which the platform may ask for this one. */
  readonly libraries: readonly string[];
}

/** Throws `not_permitted` unless the decision allows this work in this way. Meets no obligation yet. */
export function requirePermission(
  decision: Decision,
  wanted: {
    readonly profile: Profile;
    readonly transports: readonly string[];
    /** Keys that wrap; one of them must be the TDF key that the plan names. */
    readonly wrapping: readonly { readonly url?: string | undefined; readonly kid?: string | undefined }[];
  },
  understanding: Understanding,
): void {
  const { plan, decisionId, reasons } = decision;
  const refuse = (why: string): never => {
    throw new EnforcementError("not_permitted", why, { decisionId });
  };
  if (decision.allow !== true) refuse(`the platform denied it${reasons.length > 0 ? `: ${reasons.join(", ")}` : ""}`);
  if (decisionId === "" || decision.policyRevision === "") refuse("the answer names no decision or policy revision");
  if (plan.sendPlaintextToPlatform !== false) refuse("the plan would send plaintext away");
  if (plan.isLocal !== true) refuse("the plan is not to be carried out here");
  if (plan.artifactProfile !== wanted.profile) refuse(`the plan is for profile ${plan.artifactProfile}`);
  if (!wanted.transports.includes(plan.keyTransport))
    refuse(`the plan is for a key that is ${plan.keyTransport}, this one is ${wanted.transports.at(-1)}`);
  const { handlingMode, library, tdfKey } = plan;
  const isTdf = tdfKey !== undefined && wanted.profile === "tdf" && wanted.wrapping.length > 0;
  if (isTdf && !wanted.wrapping.some(({ url, kid }) => url === tdfKey.url && kid === tdfKey.kid))
    refuse(`the plan is for the TDF key ${tdfKey.kid} of ${tdfKey.url}`);
  if (handlingMode !== undefined && !understanding.handlingModes.includes(handlingMode))
    refuse(`the platform demands ${handlingMode}`);
  if (library !== undefined && !understanding.libraries.includes(library)) refuse(`the plan is for ${library}`);
  for (const { id } of decision.obligations)
    if (id !== evidenceWithin && !understanding.obligations.has(id)) refuse(`the platform demands ${id}`);
}

/** Meets all obligations of the decisions. Throws `not_permitted` if one cannot be met. */
export async function meetObligations(
  decisions: readonly Decision[],
  { obligations }: Pick<Understanding, "obligations">,
): Promise<void> {
  for (const { decisionId, obligations: demanded } of decisions) {
    for (const { id, parameters } of demanded) {
      const isMet = id === evidenceWithin || (await attempt(obligations.get(id), parameters));
      if (!isMet) throw new EnforcementError("not_permitted", `the platform demands ${id}: not met`, { decisionId });
    }
  }
}

async function attempt(handler: ObligationHandler | undefined, parameters: Obligation["parameters"]): Promise<boolean> {
  try {
    return (await handler?.(parameters)) === true;
  } catch {
    return false;
  }
}

/**
 * How long the event of this work may be pending, in milliseconds: the shortest time that a decision names, and no more
 * than `limitMs`; 0 if there is neither. Throws `not_permitted` for a malformed obligation.
 */
export function evidenceTolerance(decisions: readonly Decision[], limitMs: number | undefined): number {
  const named = decisions.flatMap(({ obligations, decisionId }) =>
    obligations
      .filter(({ id }) => id === evidenceWithin)
      .map(({ parameters: { seconds, ...others } }) => {
        if (seconds === undefined || !/^\d{1,9}$/.test(seconds) || Object.keys(others).length > 0)
          throw new EnforcementError("not_permitted", `${evidenceWithin} has other parameters than seconds`, {
            decisionId,
          });
        return Number(seconds) * 1000;
      }),
  );
  return named.length > 0 ? Math.min(...named, limitMs ?? Infinity) : (limitMs ?? 0);
}
