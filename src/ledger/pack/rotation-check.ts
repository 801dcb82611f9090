/** Keys that a log's own records say have been replaced. */

import { readRotation } from "../record/rotation.ts";
import { openCheckpoint } from "../tlog/checkpoint.ts";
import { NoteError } from "../tlog/note.ts";
import { ed25519Type, formatVerifierKey, keyIdOf, type NoteVerifier, parseVerifierKey } from "../tlog/note-keys.ts";
import type { CheckedEntry } from "./entry-check.ts";
import { refuse } from "./problem.ts";

/**
 * Whether the trusted key may have signed a checkpoint with this rotation in it: after its rotation an old key counts
 * only beside the new one. Throws a PackError. An old key that was stolen can sign a tree without the rotation, and no
 * pack shows that: who knows of the rotation does not trust the old key for what came later.
 */
export function checkRotation({ line, leafIndex, record }: CheckedEntry, verifier: NoteVerifier, note: string): void {
  if (record?.kind !== "key_rotation") return;
  const keys = readRotation(record);
  if (keys === undefined) refuse(line, `leaf ${leafIndex} does not say which keys it is of`);
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
