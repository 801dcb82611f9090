/** Checkpoints, C2SP tlog-checkpoint: a note whose text is origin, tree size and root hash, one per line. */

import { formatBase64, parseBase64, parseDecimal } from "../../base/text-forms.ts";
import { NoteError, openNote, parseNote, signNote } from "./note.ts";
import type { NoteSigner, NoteVerifier } from "./note-keys.ts";
import { hashBytes } from "./tree.ts";
import type { TreeHead } from "./tree-verify.ts";

export interface Checkpoint extends TreeHead {
  readonly origin: string;
}

/** Verifies signatures of a log's key. */
export interface LogVerifier extends NoteVerifier {
  /** Leaves of the largest tree for which the key counts; undefined if it was not retired. */
  readonly maxTreeSize?: number | undefined;
}

/** The text to sign. */
export function checkpointText({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${formatBase64(root)}\n`;
}

/** Signs a checkpoint. The signers' names should be the origin. */
export function signCheckpoint(checkpoint: Checkpoint, signers: readonly NoteSigner[]): string {
  return signNote(checkpointText(checkpoint), signers);
}

/** Parses a checkpoint without checking signatures. Throws a NoteError if it is malformed. */
export function parseCheckpoint(note: string): Checkpoint {
  return parseText(parseNote(note).text);
}

/**
 * Parses a checkpoint that the verifier's key signed, of a tree for which the key counts, and whose origin is the key's
 * name. Throws a NoteError. Does not check that it is the newest, nor that it is consistent with any other.
 */
export function openCheckpoint(note: string, verifier: LogVerifier): Checkpoint {
  const checkpoint = parseText(openNote(note, verifier));
  if (checkpoint.origin !== verifier.name) throw new NoteError("The checkpoint is of another log.");
  const { keyId, maxTreeSize } = verifier;
  if (maxTreeSize !== undefined && checkpoint.size > maxTreeSize)
    throw new NoteError(
      `The key ${keyId} was retired: it counts for trees of up to ${maxTreeSize} leaves, not ${checkpoint.size}.`,
    );
  return checkpoint;
}

function parseText(text: string): Checkpoint {
  const lines = text.split("\n");
  const [origin = "", sizeText = "", rootText = "", ...extensions] = lines.slice(0, -1);
  const size = parseDecimal(sizeText);
  const root = parseBase64(rootText);
  if (origin === "" || size === undefined || root?.length !== hashBytes || extensions.includes(""))
    throw new NoteError("The checkpoint is malformed.");
  return { origin, size, root };
}
