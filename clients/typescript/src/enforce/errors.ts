/** What local enforcement can fail with: a closed list, so that callers and exit codes tell cases apart. */
import { PlatformError } from "./client.ts";

export type EnforcementFailure =
  /** The platform denied it, or demands what cannot be met. */
  | "not_permitted"
  /** Bytes are not what was protected: changed, cut, reordered, or with another header, decision or key. */
  | "not_authentic"
  /** The platform, or the key service, gave no answer that counts. */
  | "unavailable"
  /** Evidence of earlier work has not reached the ledger in the time that is tolerated. */
  | "evidence_overdue"
  /** The input, an option or a key file cannot be used as it is. */
  | "invalid"
  /** The output is there already. */
  | "exists";

/** Thrown by every operation; nothing of the output is there under its name then. */
export class EnforcementError extends Error {
  override readonly name = "EnforcementError";
  readonly failure: EnforcementFailure;
  /** The decision that denied, where there is one. */
  readonly decisionId?: string;

  constructor(
    failure: EnforcementFailure,
    message: string,
    { cause, decisionId }: { readonly cause?: unknown; readonly decisionId?: string } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.failure = failure;
    if (decisionId !== undefined) this.decisionId = decisionId;
  }
}

/** Why a call failed, for a person: a refusal by the service's reason, which is not the same as silence. */
export function callProblem(error: unknown): string {
  if (error instanceof EnforcementError) return error.message;
  if (!(error instanceof PlatformError) || error.reason === undefined)
    return `the platform gave no answer: ${error instanceof Error ? error.message : String(error)}`;
  const { reason, rawMessage, requestId } = error;
  return `the platform refused the call, ${reason}: ${rawMessage}${requestId === undefined ? "" : ` (request ${requestId})`}`;
}
