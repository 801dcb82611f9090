/**
 * Trusted keys of a log. A retired key counts only for trees without the leaf of its rotation: `VKEY@SIZE`, with the
 * index of that leaf, which is the size of the largest tree without it.
 */
import { parseDecimal } from "../../base/text-forms.ts";
import { type LogVerifier, openCheckpoint } from "./checkpoint.ts";
import { NoteError, openNote, parseNote } from "./note.ts";
import { parseVerifierKey } from "./note-keys.ts";

/** Parses `VKEY` or `VKEY@SIZE`. Undefined for any other text. */
export function parseTrustedKey(text: string): LogVerifier | undefined {
  // Base64 has no @, so it is never part of the key.
  const [, vkey = text, bound] = /^(.*)@([0-9]+)$/su.exec(text) ?? [];
  const verifier = parseVerifierKey(vkey);
  if (verifier === undefined || bound === undefined) return verifier;
  const maxTreeSize = parseDecimal(bound);
  return maxTreeSize === undefined ? undefined : { ...verifier, maxTreeSize };
}

/** The text for `parseTrustedKey`. */
export function formatTrustedKey(vkey: string, maxTreeSize: number): string {
  return `${vkey}@${maxTreeSize}`;
}

/**
 * Opens a checkpoint that one of the keys signed and was allowed to. Throws a NoteError, also if the signature of any
 * of them is wrong, as C2SP signed-note requires.
 */
export function openWithAny(note: string, keys: readonly LogVerifier[]) {
  const { signatures } = parseNote(note);
  const signing = keys.filter(({ name, keyId }) =>
    signatures.some((signature) => signature.name === name && signature.keyId === keyId),
  );
  const [first] = signing;
  if (first === undefined)
    throw new NoteError(keys.length === 0 ? "There is no trusted key." : "The note is not signed by the trusted key.");
  for (const key of signing) openNote(note, key);
  const { size } = openCheckpoint(note, { ...first, maxTreeSize: undefined });
  const verifier = signing.find(({ maxTreeSize }) => maxTreeSize === undefined || size <= maxTreeSize) ?? first;
  return { checkpoint: openCheckpoint(note, verifier), verifier };
}
