/** What local enforcement can fail with: a closed list, so that callers and exit codes tell cases apart. */
import { PlatformError } from "./client.ts";
import { visibleLine } from "./text.ts";

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
  /** A disk is full or fails, or a stream broke: what was asked may be right. */
  | "io_failed"
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
    // It may repeat what a file or a peer says, and is printed.
    super(visibleLine(message), cause === undefined ? undefined : { cause });
    this.failure = failure;
    if (decisionId !== undefined) this.decisionId = decisionId;
  }
}

/** What the system says of a path that cannot be used as it is; whatever else it says is of its disk. */
const pathMistakes: readonly unknown[] = [
  ...["EACCES", "EEXIST", "EINVAL", "EISDIR", "ELOOP", "ENAMETOOLONG", "ENOENT", "ENOTDIR", "ENOTEMPTY", "EPERM"],
  ...["EROFS", "EXDEV"],
];

/** The failure that an error of the system is: a mistake of the caller, or of a disk or stream. */
export function failureOfSystem(error: unknown): EnforcementFailure & ("invalid" | "io_failed") {
  const { code, errno } = (error ?? {}) as NodeJS.ErrnoException;
  return typeof errno === "number" && !pathMistakes.includes(code) ? "io_failed" : "invalid";
}

/** Any error, as one of the closed list. */
export function enforcementError(cause: unknown): EnforcementError {
  if (cause instanceof EnforcementError) return cause;
  return new EnforcementError(failureOfSystem(cause), cause instanceof Error ? cause.message : String(cause), {
    cause,
  });
}

/** Why a call failed, for a person: a refusal by the service's reason, which is not the same as silence. */
export function callProblem(error: unknown): string {
  if (error instanceof EnforcementError) return error.message;
  if (!(error instanceof PlatformError) || error.reason === undefined)
    return `the platform gave no answer: ${error instanceof Error ? error.message : String(error)}`;
  const { reason, rawMessage, requestId } = error;
  return `the platform refused the call, ${reason}: ${rawMessage}${requestId === undefined ? "" : ` (request ${requestId})`}`;
}
