/** Trees that somebody was shown before: of old checkpoints, and of old receipts. */
import { readFileSync } from "node:fs";
import type { EarlierTree } from "../../ledger/audit/audit.ts";
import { findReceipt, verifyReceipt } from "../../ledger/record/receipt.ts";
import { type LogVerifier, openCheckpoint, parseCheckpoint } from "../../ledger/tlog/checkpoint.ts";
import { NoteError } from "../../ledger/tlog/note.ts";
import { parseTlogProof } from "../../ledger/tlog/tlog-proof.ts";
import { openWithAny } from "../../ledger/tlog/trusted-key.ts";

export interface EarlierState extends EarlierTree {
  readonly origin: string;
  /** The signed checkpoint. */
  readonly note: string;
}

/** Larger files are none of these. */
const maxFileBytes = 16 * 1024 * 1024;

/**
 * Reads a checkpoint, a receipt, or an answer that carries one. Throws a NoteError that names the file where it holds
 * none, where no key of the log signed it, or where the receipt does not hold.
 *
 * @param keysOf the keys that count for a log, by its origin
 */
export function readEarlierState(file: string, keysOf: (origin: string) => readonly LogVerifier[]): EarlierState {
  const text = readOrRefuse(file);
  try {
    const receipt = findReceipt(parseJson(text));
    const note = receipt === undefined ? text : parseTlogProof(receipt.proof).checkpoint;
    const keys = keysOf(parseCheckpoint(note).origin);
    const { verifier } = openWithAny(note, keys);
    if (receipt !== undefined) verifyReceipt(receipt, verifier);
    return { ...openCheckpoint(note, verifier), note, source: file };
  } catch (error) {
    if (error instanceof NoteError) throw new NoteError(`${file}: ${error.message}`);
    throw error;
  }
}

function readOrRefuse(file: string): string {
  try {
    const bytes = readFileSync(file);
    if (bytes.length > maxFileBytes) throw new NoteError(`${file}: is too large for a checkpoint or a receipt`);
    return bytes.toString("utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error)
      throw new NoteError(`${file}: cannot be read (${String(error.code)})`);
    throw error;
  }
}

/** Undefined where the text is no JSON: then it may be a checkpoint. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
