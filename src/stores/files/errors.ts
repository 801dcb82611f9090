/** Errors common to all stores. */
import { ServiceError, storeUnavailable } from "../../base/errors.ts";

/** Stored bytes that do not verify. */
export class DamagedError extends Error {
  override readonly name = "DamagedError";
}

/** The setting, or the option, that what was thrown is about, for the beginning of a message. */
export function settingOf(thrown: unknown): string {
  return thrown instanceof Error && "setting" in thrown ? String(thrown.setting) : "SVC_STORE";
}

/** This program cannot use the store, or a file of it, as it is; the message is for the operator. */
export class IncompatibleStoreError extends Error {
  override readonly name = "IncompatibleStoreError";
  readonly setting: string;

  constructor(message: string, setting = "SVC_STORE", options?: ErrorOptions) {
    super(message, options);
    this.setting = setting;
  }
}

/** The anchor's file cannot be used; the store itself may be sound. The message names the file. */
export class AnchorFileError extends Error {
  override readonly name = "AnchorFileError";
  readonly setting = "SVC_ANCHOR";
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
  return storeUnavailable("The record store is not available.", new Error(cause));
}
