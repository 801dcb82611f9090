/** Classifies errors of PostgreSQL for callers: retryable, unknown outcome, timed out, unavailable. */
import { DatabaseError } from "pg";
import { ServiceError } from "../../../base/errors.ts";
import { UnsoundLogError, UnstorableError } from "../../../ledger/ports/store.ts";
import { DamagedError, damaged, IncompatibleStoreError, unavailable } from "../../files/errors.ts";
import { ConflictError } from "../../sql/appending.ts";

/**
 * An error of the store's own transaction code, not of driver or server. By itself: the time limit ended before anything
 * was committed.
 */
export class TransactionError extends Error {
  override readonly name: string = "TransactionError";
}

/** The outcome of a commit is unknown: it is reported as a failure and not retried. */
export class UnknownOutcomeError extends TransactionError {
  override readonly name = "UnknownOutcomeError";
}

/** Slow work whose connection was needed. Nothing was committed. */
export class CalledOffError extends TransactionError {
  override readonly name = "CalledOffError";
}

// SQLSTATE classes and codes, PostgreSQL documentation, appendix A.
const dataClasses = ["22", "23", "54"]; // data exception, integrity constraint violation, program limit exceeded
const transactionRollback = "40"; // serialization failure, deadlock
const connectionClasses = ["08"];
/** Shutdown of the server or of this session, a crash of another session, or a server that is starting. */
const connectionCodes = ["57P01", "57P02", "57P03"];

/** Whether the work may be repeated at once: nothing was committed, and the work did not cause the failure. */
export function isRetryable(error: unknown): boolean {
  if (error instanceof ConflictError || error instanceof CalledOffError) return true;
  if (error instanceof DatabaseError) return codeOf(error).startsWith(transactionRollback) || isConnectionLost(error);
  return isConnectionLost(error);
}

/** Whether the database cannot be reached. */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof DatabaseError) {
    const code = codeOf(error);
    return connectionCodes.includes(code) || connectionClasses.includes(code.slice(0, 2));
  }
  return error instanceof Error && !isOwn(error);
}

/** Whether a statement reached its lock timeout. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "55P03";
}

export function isTooManyConnections(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "53300";
}

export function isInFailedTransaction(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "25P02";
}

/** The error that a caller of the store gets. */
export function toError(error: unknown): Error {
  if (error instanceof UnstorableError || error instanceof ServiceError) return error;
  if (error instanceof DamagedError) return damaged(error);
  // On a cluster the shard's number follows the constraint's name.
  if (error instanceof DatabaseError && error.constraint?.startsWith("entries_pkey") === true)
    return new UnsoundLogError("a row of the log stands behind its head: `ledger verify` names it", { cause: error });
  if (error instanceof DatabaseError && dataClasses.includes(codeOf(error).slice(0, 2)))
    return new UnstorableError(error.message, { cause: error });
  return unavailable(error instanceof Error ? error.message : String(error));
}

/** Drivers and sockets throw plain errors; only the store's own classes have a meaning here. */
function isOwn(error: Error): boolean {
  return (
    error instanceof TransactionError ||
    error instanceof ConflictError ||
    error instanceof UnstorableError ||
    error instanceof DamagedError ||
    error instanceof IncompatibleStoreError ||
    error instanceof ServiceError ||
    error instanceof RangeError ||
    error instanceof TypeError
  );
}

function codeOf({ code }: DatabaseError): string {
  return code ?? "";
}
