/** Signed notes, C2SP signed-note: a text, an empty line, and signature lines (`— name base64(key id, signature)`). */
import { formatBase64, parseBase64 } from "../../base/text-forms.ts";
import type { NoteSigner, NoteVerifier } from "./note-keys.ts";
import { isKeyName } from "./note-keys.ts";

/** Larger notes are refused unread. Sixteen post-quantum signatures fit twice. */
export const maxNoteBytes = 256 * 1024;
const maxSignatures = 64;
const keyIdBytes = 4;

/** A signature line, of any key. */
export interface NoteSignature {
  readonly name: string;
  /** 8 hexadecimal digits. */
  readonly keyId: string;
  readonly signature: Uint8Array;
}

interface Note {
  /** With its final newline. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

/** A note is malformed, or not signed by the required key. */
export class NoteError extends Error {
  override readonly name = "NoteError";
}

/** Signs a text. Throws a NoteError if a note cannot hold it. */
export function signNote(text: string, signers: readonly NoteSigner[]): string {
  if (!text.endsWith("\n") || !isNoteText(text)) throw new NoteError("The text cannot be a note's.");
  const bytes = Buffer.from(text, "utf8");
  const lines = signers.map(({ name, keyId, sign }) => formatSignature({ name, keyId, signature: sign(bytes) }));
  return `${text}\n${lines.join("")}`;
}

/** The line of a signature, with its newline. */
export function formatSignature({ name, keyId, signature }: NoteSignature): string {
  return `— ${name} ${formatBase64(Buffer.concat([Buffer.from(keyId, "hex"), signature]))}\n`;
}

/** Parses a note without checking signatures. Throws a NoteError. */
export function parseNote(note: string): Note {
  if (Buffer.byteLength(note) > maxNoteBytes) throw new NoteError("The note is too large.");
  if (!isNoteText(note)) throw new NoteError("The note holds control characters or is not well-formed.");
  const end = note.lastIndexOf("\n\n");
  if (end < 0 || !note.endsWith("\n") || end + 2 === note.length) throw new NoteError("The note has no signatures.");
  return { text: note.slice(0, end + 1), signatures: parseSignatures(note.slice(end + 2)) };
}

/** Parses signature lines, each with its newline. Throws a NoteError. */
export function parseSignatures(text: string): readonly NoteSignature[] {
  if (!text.endsWith("\n")) throw new NoteError("A signature line of the note is malformed.");
  const lines = text.slice(0, -1).split("\n");
  if (lines.length > maxSignatures) throw new NoteError("The note has too many signatures.");
  return lines.map(parseSignatureLine);
}

function parseSignatureLine(line: string): NoteSignature {
  const [dash, name = "", encoded = "", ...more] = line.split(" ");
  const bytes = parseBase64(encoded);
  if (dash !== "—" || !isKeyName(name) || bytes === undefined || bytes.length <= keyIdBytes || more.length > 0)
    throw new NoteError("A signature line of the note is malformed.");
  const keyId = Buffer.from(bytes.subarray(0, keyIdBytes)).toString("hex");
  return { name, keyId, signature: bytes.subarray(keyIdBytes) };
}

/**
 * Returns the text of a note that the verifier's key signed. Signatures of other keys are ignored, also if they share
 * only its name or only its id. Throws a NoteError if the note is malformed, or if there is not exactly one signature
 * of the key, or it does not verify.
 */
export function openNote(note: string, verifier: NoteVerifier): string {
  const { text, signatures } = parseNote(note);
  const own = signatures.filter(({ name, keyId }) => name === verifier.name && keyId === verifier.keyId);
  if (own.length === 0) throw new NoteError("The note is not signed by the trusted key.");
  if (own.length > 1) throw new NoteError("The trusted key signed the note twice.");
  const bytes = Buffer.from(text, "utf8");
  if (!own.every(({ signature }) => verifier.verify(bytes, signature)))
    throw new NoteError("The signature of the trusted key does not verify.");
  return text;
}

/** Well-formed, and without control characters below U+0020 other than newline. */
function isNoteText(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.isWellFormed() && !/[\u0000-\u0009\u000b-\u001f]/.test(text);
}
