/** Signed checkpoints of a log: C2SP tlog-checkpoint in C2SP signed-note, by Ed25519 keys. */
import { formatHex, joined, parseBase64, parseDecimal, sha256 } from "./text-forms.ts";
import { hashBytes } from "./tree.ts";

/** A receipt does not verify. */
export class ReceiptError extends Error {
  override readonly name = "ReceiptError";
}

/** Larger notes are refused unread. */
const maxNoteBytes = 256 * 1024;
const maxSignatures = 64;
const keyIdBytes = 4;
const ed25519Type = 1;
const publicKeyBytes = 32;

/** Results of the last calls with different texts: many receipts share a checkpoint and its keys. Failures are not kept. */
class Recent<Result> {
  readonly #results = new Map<string, Promise<Result>>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  of(text: string, work: () => Promise<Result>): Promise<Result> {
    const found = this.#results.get(text);
    if (found !== undefined) return found;
    const working = work();
    this.#results.set(text, working);
    const [oldest = text] = this.#results.keys();
    if (this.#results.size > this.#most) this.#results.delete(oldest);
    working.catch(() => this.#results.delete(text));
    return working;
  }
}

const parsedKeys = new Recent<LogKey>(64);
const openedCheckpoints = new Recent<Checkpoint>(64);

/** A trusted key of one log. */
export interface LogKey {
  /** `VKEY` or `VKEY@SIZE`. */
  readonly text: string;
  /** Origin of the log. */
  readonly name: string;
  /** 8 hexadecimal digits. */
  readonly keyId: string;
  readonly key: CryptoKey;
  /** Leaves of the largest tree for which the key counts; undefined if it was not retired. */
  readonly maxTreeSize: number | undefined;
}

/** Parses `VKEY` or `VKEY@SIZE`. Throws a ReceiptError for any other text. */
export function parseLogKey(text: string): Promise<LogKey> {
  return parsedKeys.of(text, () => parse(text));
}

async function parse(text: string): Promise<LogKey> {
  // Base64 has no @, so it is never part of the key.
  const [, name = "", keyId, encoded = "", bound] = /^([^+]+)\+([0-9a-f]{8})\+([^@]+)(?:@(.*))?$/su.exec(text) ?? [];
  const typed = parseBase64(encoded);
  const maxTreeSize = bound === undefined ? undefined : parseDecimal(bound);
  const isBoundRead = bound === undefined || maxTreeSize !== undefined;
  if (!isKeyName(name) || typed?.length !== 1 + publicKeyBytes || typed[0] !== ed25519Type || !isBoundRead)
    throw new ReceiptError("the log key cannot be read");
  const digest = await sha256(new TextEncoder().encode(`${name}\n`), typed);
  if (formatHex(digest.subarray(0, keyIdBytes)) !== keyId) throw new ReceiptError("the log key's id is not its own");
  const key = await crypto.subtle.importKey("raw", typed.slice(1), "Ed25519", false, ["verify"]);
  return { text, name, keyId, key, maxTreeSize };
}

export interface Checkpoint {
  readonly origin: string;
  readonly size: number;
  readonly root: Uint8Array;
}

/**
 * Opens a checkpoint that one of the keys signed and was allowed to. Throws a ReceiptError, also if the signature of
 * any of them is wrong, as C2SP signed-note requires.
 */
export async function openCheckpoint(note: string, keys: readonly LogKey[]): Promise<Checkpoint> {
  const shared = JSON.stringify([note, ...keys.map(({ text }) => text)]);
  const { root, ...others } = await openedCheckpoints.of(shared, () => open(note, keys));
  // The caller may change its bytes.
  return { ...others, root: Uint8Array.from(root) };
}

async function open(note: string, keys: readonly LogKey[]): Promise<Checkpoint> {
  const { text, signatures } = parseNote(note);
  const checkpoint = parseCheckpoint(text);
  const bytes = new TextEncoder().encode(text);
  const signing: LogKey[] = [];
  for (const key of keys) {
    const own = signatures.filter(({ name, keyId }) => name === key.name && keyId === key.keyId);
    // A repeated line adds nothing, and would give one proof two texts.
    if (own.length > 1) throw new ReceiptError("the trusted key signed twice");
    for (const { signature } of own) {
      if (!(await crypto.subtle.verify("Ed25519", key.key, signature, bytes)))
        throw new ReceiptError("the signature of the trusted key does not verify");
    }
    if (own.length > 0) signing.push(key);
  }
  if (signing.length === 0) throw new ReceiptError("the checkpoint is not signed by a trusted key");
  if (signing.some(({ name }) => name !== checkpoint.origin))
    throw new ReceiptError("the checkpoint is of another log");
  if (signing.every(({ maxTreeSize = checkpoint.size }) => checkpoint.size > maxTreeSize))
    throw new ReceiptError("the key that signed was retired before");
  return checkpoint;
}

interface NoteSignature {
  readonly name: string;
  readonly keyId: string;
  readonly signature: Uint8Array<ArrayBuffer>;
}

function parseNote(note: string): { readonly text: string; readonly signatures: readonly NoteSignature[] } {
  const end = note.lastIndexOf("\n\n");
  const isTooLarge = new TextEncoder().encode(note).length > maxNoteBytes;
  if (isTooLarge || !isNoteText(note) || end < 0 || !note.endsWith("\n") || end + 2 === note.length)
    throw new ReceiptError("the checkpoint is malformed");
  const lines = note.slice(end + 2, -1).split("\n");
  if (lines.length > maxSignatures) throw new ReceiptError("the checkpoint has too many signatures");
  return { text: note.slice(0, end + 1), signatures: lines.map(parseSignature) };
}

/** `— name base64(key id, signature)` */
function parseSignature(line: string): NoteSignature {
  const [dash, name = "", encoded = "", ...more] = line.split(" ");
  const bytes = parseBase64(encoded);
  if (dash !== "—" || !isKeyName(name) || bytes === undefined || bytes.length <= keyIdBytes || more.length > 0)
    throw new ReceiptError("a signature line of the checkpoint is malformed");
  return { name, keyId: formatHex(bytes.subarray(0, keyIdBytes)), signature: joined(bytes.subarray(keyIdBytes)) };
}

/** Origin, tree size and root hash, one per line; further lines are extensions. */
function parseCheckpoint(text: string): Checkpoint {
  const [origin = "", sizeText = "", rootText = "", ...extensions] = text.split("\n").slice(0, -1);
  const size = parseDecimal(sizeText);
  const root = parseBase64(rootText);
  if (origin === "" || size === undefined || root?.length !== hashBytes || extensions.includes(""))
    throw new ReceiptError("the checkpoint is malformed");
  return { origin, size, root };
}

/** Key names are not empty and hold no space, no plus sign and no control character. */
function isKeyName(name: string): boolean {
  return /^[^\s+\p{Cc}]+$/u.test(name) && isWellFormed(name);
}

/** Well-formed, and without control characters below U+0020 other than newline. */
function isNoteText(text: string): boolean {
  return isWellFormed(text) && !/[^\P{Cc}\n\x7f-\x9f]/u.test(text);
}

/** Whether the text has no lone surrogate. */
function isWellFormed(text: string): boolean {
  return !/\p{Cs}/u.test(text);
}
