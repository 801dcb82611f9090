/** Classifies errors of SQLite for callers. */
import { storeUnavailable } from "../../base/errors.ts";
import { UnsoundLogError, UnstorableError } from "../../ledger/ports/store.ts";
import { AnchorFileError, DamagedError, damaged, unavailable } from "../files/errors.ts";
import { RetiredKeyError } from "../sql/key-ring.ts";
import { StoreMovedError } from "./file-identity.ts";

// Primary result codes, https://sqlite.org/rescode.html
const busy = 5;
const tooBig = 18;
const constraint = 19;
const mismatch = 20;
/** Extended code of a refusal by a trigger; only a sealed store has triggers. */
const refusedByTrigger = 19 | (7 << 8);

/** Why a call on the store failed, as the worker sends it. */
export interface StoreFailure {
  /**
   * `data`: the written data cannot be stored. `damaged`: stored data does not verify. `unsound`: the log is damaged,
   * or contradicts its anchor. `retired`: another key signs the logs by now. `moved`: the file is not the store's any
   * more; its connection stays open, because it alone keeps that file's content.
   */
  readonly kind: "data" | "store" | "damaged" | "unsound" | "retired" | "moved";
  /** For the log. */
  readonly message: string;
  /** Of `retired`: the key that signs. */
  readonly newest?: Uint8Array;
}

export function describeFailure(error: unknown): StoreFailure {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof StoreMovedError) return { kind: "moved", message };
  if (error instanceof RetiredKeyError) return { kind: "retired", message, newest: error.newest };
  if (error instanceof DamagedError) return { kind: "damaged", message };
  if (error instanceof UnsoundLogError) return { kind: "unsound", message };
  if (error instanceof UnstorableError) return { kind: "data", message };
  if (codeOf(error) === refusedByTrigger) return { kind: "store", message };
  const code = primaryCode(error);
  if (code === constraint && message.includes("entries.leaf_index"))
    return { kind: "unsound", message: "a row of the log stands behind its head: `ledger verify` names it" };
  if (code === tooBig || code === constraint || code === mismatch) return { kind: "data", message };
  return { kind: "store", message };
}

/** Converts anything thrown to the error that a command reports; keeps errors of the anchor. */
export function toReported(error: unknown): unknown {
  return error instanceof AnchorFileError ? error : toError(describeFailure(error));
}

/** Whether another connection held a lock for too long: the connection itself is sound. */
export function isBusy(error: unknown): boolean {
  return primaryCode(error) === busy;
}

/** Converts a failure to the error that a caller of the store gets. */
export function toError({ kind, message, newest }: StoreFailure): Error {
  if (kind === "retired" && newest !== undefined) return new RetiredKeyError(newest);
  if (kind === "data") return new UnstorableError(message);
  if (kind === "unsound") return new UnsoundLogError(message);
  if (kind === "moved") return storeUnavailable("The store's file was deleted, moved or replaced.", new Error(message));
  if (kind === "damaged") return damaged(new Error(message));
  return unavailable(message);
}

/** The low byte of the extended result code is the primary one. */
function primaryCode(error: unknown): number {
  return codeOf(error) & 0xff;
}

/** The extended result code; 0 if SQLite did not fail. */
function codeOf(error: unknown): number {
  return error instanceof Error && "errcode" in error ? Number(error.errcode) : 0;
}
