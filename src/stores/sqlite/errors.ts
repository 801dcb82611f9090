/** What an SQLite error means for who waits. */
import { ServiceError } from "../../base/errors.ts";
import { UnsoundLogError, UnstorableError } from "../../ledger/store.ts";

// Primary result codes, https://sqlite.org/rescode.html
const busy = 5;
const tooBig = 18;
const constraint = 19;
const mismatch = 20;

/** Why a call on the store failed, as it crosses from the worker. */
export interface StoreFailure {
  /**
   * `data`: what was written cannot be stored. `damaged`: what was read is not what was written. `unsound`: the log
   * that was to be written to is damaged, or not what its anchor says.
   */
  readonly kind: "data" | "store" | "damaged" | "unsound";
  /** For the log. */
  readonly message: string;
}

/** Stored bytes that do not verify. */
export class DamagedError extends Error {
  override readonly name = "DamagedError";
}

/** The file cannot be used by this program as it is; its message tells the operator why. */
export class IncompatibleStoreError extends Error {
  override readonly name = "IncompatibleStoreError";
}

/** Classifies anything thrown while a call was served. */
export function describeFailure(error: unknown): StoreFailure {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof DamagedError) return { kind: "damaged", message };
  if (error instanceof UnsoundLogError) return { kind: "unsound", message };
  if (error instanceof UnstorableError) return { kind: "data", message };
  const code = primaryCode(error);
  if (code === tooBig || code === constraint || code === mismatch) return { kind: "data", message };
  return { kind: "store", message };
}

/** Whether another connection held a lock for too long: the connection itself is sound. */
export function isBusy(error: unknown): boolean {
  return primaryCode(error) === busy;
}

/** The error that a caller of the store gets. */
export function toError({ kind, message }: StoreFailure): Error {
  if (kind === "data") return new UnstorableError(message);
  if (kind === "unsound") return new UnsoundLogError(message);
  if (kind === "damaged")
    return new ServiceError("internal", "The stored record is damaged.", { cause: new Error(message) });
  return unavailable(message);
}

/** `store_unavailable`, with the cause for the log. */
export function unavailable(cause: string): ServiceError {
  return new ServiceError("store_unavailable", "The record store is not available.", {
    retryAfterSeconds: 1,
    cause: new Error(cause),
  });
}

/** `errcode` of node:sqlite is the extended result code; its low byte is the primary one. */
function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number") return undefined;
  return error.errcode & 0xff;
}
