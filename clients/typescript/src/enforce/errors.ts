/** Failures of local enforcement: a closed list, for callers and exit codes. */
import { Code } from "@connectrpc/connect";
import { PlatformError } from "./client.ts";
import { visibleLine } from "./text.ts";

export type EnforcementFailure =
  /** The platform denied it, or requires something that cannot be met. */
  | "not_permitted"
  /** The bytes were changed, cut or reordered, or have another header, decision or key. */
  | "not_authentic"
  /** The platform or the key service gave no valid answer. */
  | "unavailable"
  /** Evidence of earlier work has not reached the ledger in time. */
  | "evidence_overdue"
  /** The input, an option or a key file cannot be used. */
  | "invalid"
  /** A disk is full or fails, or a stream broke; the request may be right. */
  | "io_failed"
  /** The output exists already. */
  | "exists";

/** Thrown by every operation; the output then does not exist under its name. */
export class EnforcementError extends Error {
  override readonly name = "EnforcementError";
  readonly failure: EnforcementFailure;
  /** The decision that denied, if there is one. */
  readonly decisionId?: string;

  constructor(
    failure: EnforcementFailure,
    message: string,
    { cause, decisionId }: { readonly cause?: unknown; readonly decisionId?: string } = {},
  ) {
    // It may repeat text of a file or a peer, and is printed.
    super(visibleLine(message), cause === undefined ? undefined : { cause });
    this.failure = failure;
    if (decisionId !== undefined) this.decisionId = decisionId;
  }

  /** Whether the same operation may succeed later; with a stream, a fresh one. A refusal of the call is final. */
  get isRetryable(): boolean {
    const isRefused = this.cause instanceof PlatformError && !passing.includes(this.cause.code);
    return retryable.includes(this.failure) && !isRefused;
  }

  /** Status for the answer of an HTTP service that enforces. */
  get httpStatus(): number {
    return httpStatuses[this.failure];
  }
}

const retryable: readonly EnforcementFailure[] = ["unavailable", "evidence_overdue", "io_failed"];
const passing: readonly Code[] = [Code.Unavailable, Code.DeadlineExceeded, Code.ResourceExhausted, Code.Aborted];
const httpStatuses: Readonly<Record<EnforcementFailure, number>> = {
  invalid: 400,
  not_permitted: 403,
  exists: 409,
  not_authentic: 422,
  io_failed: 500,
  unavailable: 503,
  evidence_overdue: 503,
};

/** System errors about an unusable path; all others are about the disk. */
const pathMistakes: readonly unknown[] = [
  ...["EACCES", "EEXIST", "EINVAL", "EISDIR", "ELOOP", "ENAMETOOLONG", "ENOENT", "ENOTDIR", "ENOTEMPTY", "EPERM"],
  ...["EROFS", "EXDEV"],
];

/** Classifies a system error: a mistake of the caller, or a failing disk or stream. */
export function failureOfSystem(error: unknown): EnforcementFailure & ("invalid" | "io_failed") {
  const { code, errno } = (error ?? {}) as NodeJS.ErrnoException;
  return typeof errno === "number" && !pathMistakes.includes(code) ? "io_failed" : "invalid";
}

/** Converts any error to one of the closed list. */
export function enforcementError(cause: unknown): EnforcementError {
  if (cause instanceof EnforcementError) return cause;
  return new EnforcementError(failureOfSystem(cause), cause instanceof Error ? cause.message : String(cause), {
    cause,
  });
}

/** Describes why a call failed: a refusal has the service's reason, unlike a missing answer. */
export function callProblem(error: unknown): string {
  if (error instanceof EnforcementError) return error.message;
  if (!(error instanceof PlatformError) || error.reason === undefined)
    return `the platform gave no answer: ${error instanceof Error ? error.message : String(error)}`;
  const { reason, rawMessage, requestId } = error;
  return `the platform refused the call, ${reason}: ${rawMessage}${requestId === undefined ? "" : ` (request ${requestId})`}`;
}
