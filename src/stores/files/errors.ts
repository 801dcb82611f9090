/** Errors common to all stores. */
import { ServiceError } from "../../base/errors.ts";

/** Stored bytes that do not verify. */
export class DamagedError extends Error {
  override readonly name = "DamagedError";
}

/** This program cannot use the store as it is; the message is for the operator. */
export class IncompatibleStoreError extends Error {
  override readonly name = "IncompatibleStoreError";
}

/** A store cannot be copied to that place. */
export class BackupTargetError extends Error {
  override readonly name = "BackupTargetError";
}

/** The anchor's file cannot be used; the store itself may be sound. The message names the file. */
export class AnchorFileError extends Error {
  override readonly name = "AnchorFileError";
  /** Extended result code of SQLite, if it failed. */
  readonly errcode?: number;

  constructor(path: string, cause: unknown) {
    super(`${path}: the anchor cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    if (cause instanceof Error && "errcode" in cause && typeof cause.errcode === "number") this.errcode = cause.errcode;
  }
}

/** The error that a caller gets for stored bytes that do not verify, with the cause for the log. */
export function damaged(cause: Error): ServiceError {
  return new ServiceError("internal", "The stored record is damaged.", { cause });
}

/** `store_unavailable`, with the cause for the log. */
export function unavailable(cause: string): ServiceError {
  return new ServiceError("store_unavailable", "The record store is not available.", {
    retryAfterSeconds: 1,
    cause: new Error(cause),
  });
}
