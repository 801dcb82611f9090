/** Inclusion proofs as text, C2SP tlog-proof v1: index, audit path and checkpoint, verifiable offline. */
import { formatBase64, parseBase64, parseDecimal } from "../../base/text-forms.ts";
import { openCheckpoint, parseCheckpoint } from "./checkpoint.ts";
import { maxNoteBytes, NoteError } from "./note.ts";
import type { NoteVerifier } from "./note-keys.ts";
import { type Hash, hashBytes, splitPoint, type Tree } from "./tree.ts";
import { verifyInclusion } from "./tree-verify.ts";

const header = "c2sp.org/tlog-proof@v1";
/** The path in a tree of 2^53 leaves is no longer. */
const maxPathLength = 53;

interface TlogProof {
  /** Index of the leaf, from 0. */
  readonly index: number;
  readonly path: readonly Hash[];
  /** The signed checkpoint, verbatim. */
  readonly checkpoint: string;
  /** Opaque and not authenticated. */
  readonly extra?: Uint8Array;
}

/** A proof's path as lines of base64, each with its newline. */
export function formatPath(path: readonly Hash[]): string {
  return path.map(formatPathLine).join("");
}

/** The path of `formatPath`. */
export function parsePath(lines: string): readonly Hash[] {
  return lines
    .split("\n")
    .slice(0, -1)
    .map((line) => Buffer.from(line, "base64"));
}

function formatPathLine(hash: Hash): string {
  return `${formatBase64(hash)}\n`;
}

/** Paths of all leaves of a tree from one on, in the form of `formatPath`. Shared nodes are written once. */
export function formatPaths(tree: Tree, first: number): string[] {
  const paths: string[] = [];
  // `above` ends the paths of all leaves of the range.
  const walk = (begin: number, end: number, above: string): void => {
    if (end - begin === 1) {
      paths.push(above);
      return;
    }
    const middle = begin + splitPoint(end - begin);
    if (first < middle) walk(begin, middle, formatPathLine(tree.range(middle, end)) + above);
    walk(middle, end, formatPathLine(tree.range(begin, middle)) + above);
  };
  if (first < tree.size) walk(0, tree.size, "");
  return paths;
}

/** Text of a proof whose path comes from `formatPath`. */
export function formatTlogProof(index: number, pathLines: string, checkpoint: string): string {
  return `${header}\nindex ${index}\n${pathLines}\n${checkpoint}`;
}

/** The checkpoint of a proof from `formatTlogProof`. */
export function checkpointOfProof(proof: string): string {
  return proof.slice(proof.indexOf("\n\n") + 2);
}

/** Parses a proof. Checks the checkpoint's form, but not its signatures. Throws a NoteError. */
export function parseTlogProof(text: string): TlogProof {
  if (Buffer.byteLength(text) > maxNoteBytes) throw new NoteError("The proof is too large.");
  const end = text.indexOf("\n\n");
  if (end < 0) throw new NoteError("The proof has no checkpoint.");
  const checkpoint = text.slice(end + 2);
  const [first, ...lines] = text.slice(0, end).split("\n");
  if (first !== header) throw new NoteError("The text is not a tlog-proof of version 1.");
  const extra =
    lines[0]?.startsWith("extra ") === true ? member(lines.shift() as string, "extra", parseBase64) : undefined;
  const index = member(lines.shift() ?? "", "index", parseDecimal);
  if (lines.length > maxPathLength) throw new NoteError("The proof is too long.");
  const path = lines.map((line) => {
    const hash = parseBase64(line);
    if (hash?.length !== hashBytes) throw new NoteError("A hash of the proof is malformed.");
    return hash;
  });
  parseCheckpoint(checkpoint);
  return { index, path, checkpoint, ...(extra !== undefined && { extra }) };
}

/** Value of the line `name value`. */
function member<Value>(line: string, name: string, parse: (text: string) => Value | undefined): Value {
  const value = line.startsWith(`${name} `) ? parse(line.slice(name.length + 1)) : undefined;
  if (value === undefined) throw new NoteError(`The line "${name}" of the proof is missing or malformed.`);
  return value;
}

/**
 * Verifies that the log of the trusted key holds a leaf with this hash. Throws a NoteError that describes the failure.
 * The key must come from the verifier, never from the proof.
 */
export function verifyTlogProof(text: string, leaf: Hash, verifier: NoteVerifier) {
  const proof = parseTlogProof(text);
  const checkpoint = openCheckpoint(proof.checkpoint, verifier);
  if (!verifyInclusion(leaf, proof.index, checkpoint.size, checkpoint.root, proof.path))
    throw new NoteError("The proof does not lead from the leaf to the checkpoint's root.");
  return { index: proof.index, path: proof.path, checkpoint };
}
