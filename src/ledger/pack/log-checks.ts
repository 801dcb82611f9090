/** Checks of what a pack's records state about the log: erased records and retired keys. */
import { readErasure, readRotation } from "../record/operator-records.ts";
import { openCheckpoint } from "../tlog/checkpoint.ts";
import { NoteError } from "../tlog/note.ts";
import { ed25519Type, formatVerifierKey, keyIdOf, type NoteVerifier, parseVerifierKey } from "../tlog/note-keys.ts";
import type { CheckedEntry } from "./entry-check.ts";
import { PackError, refuse } from "./format.ts";

/** Most erased records that may wait for their erasure. */
const maxClaims = 100_000;

export class ErasureClaims {
  readonly #open = new Map<string, CheckedEntry>();

  /** Takes the next entry. Returns whether it erases a record that the pack declared erased. Throws a PackError. */
  next(entry: CheckedEntry): boolean {
    const { line, leaf, leafIndex, record, erased } = entry;
    if (erased) this.#open.set(leaf.record_id, entry);
    if (this.#open.size > maxClaims) refuse(line, `more than ${maxClaims} erased records are without their erasure`);
    if (record?.kind !== "erasure") return false;
    const said = readErasure(record) ?? refuse(line, `leaf ${leafIndex} does not say what it erases`);
    const claim = this.#open.get(said.recordId);
    if (claim === undefined) return false;
    if (claim.leafIndex !== said.leafIndex) refuse(line, `leaf ${leafIndex} names the wrong leaf for what it erases`);
    return this.#open.delete(said.recordId);
  }

  /** Throws a PackError if a record was declared erased without showing its erasure. */
  end(): void {
    const [first] = this.#open.values();
    if (first === undefined) return;
    throw new PackError(
      `line ${first.line}: leaf ${first.leafIndex} is said to be erased, and no erasure of it is shown`,
    );
  }
}

/**
 * Checks that the trusted key may have signed a checkpoint with this rotation: after its rotation an old key counts
 * only beside the new one. Throws a PackError. A stolen old key can sign a tree without the rotation, which no pack can
 * show: verifiers that know of the rotation must not trust the old key for later trees.
 */
export function checkRotation({ line, leafIndex, record }: CheckedEntry, verifier: NoteVerifier, note: string): void {
  if (record?.kind !== "key_rotation") return;
  const keys = readRotation(record);
  if (keys === undefined) refuse(line, `leaf ${leafIndex} does not name its keys`);
  else if (
    keyIdOf(verifier.name, keys.previous, ed25519Type) === verifier.keyId &&
    !isSignedBy(note, verifier.name, keys.current)
  )
    refuse(line, `leaf ${leafIndex} replaced the key ${verifier.keyId}, which signed alone`);
}

function isSignedBy(note: string, origin: string, publicKey: Uint8Array): boolean {
  const verifier = parseVerifierKey(formatVerifierKey(origin, publicKey));
  try {
    return verifier !== undefined && openCheckpoint(note, verifier).origin === origin;
  } catch (error) {
    if (error instanceof NoteError) return false;
    throw error;
  }
}
