/** Classifies errors of PostgreSQL for callers: retryable, unknown outcome, timed out, unavailable. */
import { DatabaseError } from "pg";
import { ServiceError } from "../../../base/errors.ts";
import { UnsoundLogError, UnstorableError } from "../../../ledger/ports/store.ts";
import { DamagedError, damaged, IncompatibleStoreError, unavailable } from "../../errors.ts";

/** What the store's own code says about a transaction, rather than driver or server. */
export class TransactionError extends Error {
  override readonly name: string = "TransactionError";
}

/** The outcome of a commit is unknown: it is reported as a failure and not retried. */
export class UnknownOutcomeError extends TransactionError {
  override readonly name = "UnknownOutcomeError";
}

/** The time for it was over before anything was committed. */
export class TimeLimitError extends TransactionError {
  override readonly name = "TimeLimitError";
}

/** It was slow, and its connection was needed. Nothing was committed. */
export class CalledOffError extends TransactionError {
  override readonly name = "CalledOffError";
}

/** Another writer was first. Nothing was stored, and the next attempt sees what the other did. */
export class ConflictError extends TransactionError {
  override readonly name = "ConflictError";
}

// SQLSTATE classes and codes, PostgreSQL documentation, appendix A.
const dataClasses = ["22", "23", "54"]; // data exception, integrity constraint violation, program limit exceeded
const transactionRollback = "40"; // serialization failure, deadlock
const connectionClasses = ["08"];
/** Shutdown of the server, of this session, a crash of another; not accepting connections yet. */
const connectionCodes = ["57P01", "57P02", "57P03"];

/** Whether the same work may be done again at once: nothing of it was committed, and it was not its own fault. */
export function isRetryable(error: unknown): boolean {
  if (error instanceof ConflictError || error instanceof CalledOffError) return true;
  if (error instanceof DatabaseError) return codeOf(error).startsWith(transactionRollback) || isConnectionLost(error);
  return isConnectionLost(error);
}

/** Whether the database was not reached, or is not any more. */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof DatabaseError) {
    const code = codeOf(error);
    return connectionCodes.includes(code) || connectionClasses.includes(code.slice(0, 2));
  }
  return error instanceof Error && !isOwn(error);
}

/** Whether a statement waited for a lock for longer than the transaction lets it. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "55P03";
}

/** Whether the server has no connection left for this role, this database, or at all. */
export function isTooManyConnections(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "53300";
}

/** Whether a statement was refused because one before it in the transaction failed. */
export function isInFailedTransaction(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "25P02";
}

/** The error that a caller of the store gets. */
export function toError(error: unknown): Error {
  if (error instanceof UnstorableError || error instanceof ServiceError) return error;
  if (error instanceof DamagedError) return damaged(error);
  // On a cluster the name of the constraint goes on with the number of the shard.
  if (error instanceof DatabaseError && error.constraint?.startsWith("entries_pkey") === true)
    return new UnsoundLogError("a row of the log stands behind its head: `ledger verify` names it", { cause: error });
  if (error instanceof DatabaseError && dataClasses.includes(codeOf(error).slice(0, 2)))
    return new UnstorableError(error.message, { cause: error });
  return unavailable(error instanceof Error ? error.message : String(error));
}

/** What drivers and sockets throw are plain errors of their own; what we throw has a meaning of its own. */
function isOwn(error: Error): boolean {
  return (
    error instanceof TransactionError ||
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
