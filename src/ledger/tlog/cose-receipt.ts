/**
 * COSE Receipts of inclusion (RFC 9942): a COSE_Sign1 (RFC 9052 §4.2) whose detached payload is the root of the log's
 * tree. Its headers name origin and size, so it says what a checkpoint says.
 */
import type { Checkpoint } from "./checkpoint.ts";
import { NoteError } from "./note.ts";
import type { NoteSigner, NoteVerifier } from "./note-keys.ts";
import type { Hash } from "./tree.ts";

/** CBOR tag of a COSE_Sign1. */
const coseSign1 = Uint8Array.of(0xd2);
/** Header parameters and their values: RFC 9052 §3.1, RFC 9597, RFC 9942 §2. */
const header = { algorithm: 1, keyId: 4, claims: 15, dataStructure: 395, dataProofs: 396 } as const;
const edDsa = -8;
const rfc9162Sha256 = 1;
const inclusionProofs = -1;
/** CWT claims (RFC 8392 §3.1). */
const claim = { issuer: 1, subject: 2 } as const;
const signatureBytes = 64;

/** A tree's root, signed. All receipts in the tree share it. */
export interface SignedRoot {
  readonly protectedHeader: Uint8Array;
  readonly signature: Uint8Array;
}

/** The place of a leaf in a tree. */
export interface Place {
  readonly index: number;
  readonly size: number;
  readonly path: readonly Hash[];
}

/** Signs the root of a checkpoint. What `CheckpointSigner.sign` demands holds here too. */
export function signRoot(checkpoint: Checkpoint, { keyId, sign }: NoteSigner): SignedRoot {
  const protectedHeader = protectedHeaderOf(checkpoint, keyId);
  return { protectedHeader, signature: sign(toBeSigned(protectedHeader, checkpoint.root)) };
}

export function coseReceipt({ protectedHeader, signature }: SignedRoot, { index, size, path }: Place): Uint8Array {
  const proof = encodeCbor([size, index, path]);
  const unprotected = new Map([[header.dataProofs, new Map([[inclusionProofs, [proof]]])]]);
  return Buffer.concat([coseSign1, encodeCbor([protectedHeader, unprotected, null, signature])]);
}

/**
 * Throws a NoteError if the bytes are not the receipt of this place in the checkpoint's tree, which the caller has
 * verified. The encoding is deterministic, so the bytes are compared and need no parser. The signature is checked if it
 * is by the verifier's key; one by another key is ignored, as on a checkpoint.
 */
export function verifyCoseReceipt(
  given: Uint8Array,
  { index, path, checkpoint }: { readonly checkpoint: Checkpoint } & Omit<Place, "size">,
  { keyId, verify }: NoteVerifier,
): void {
  const signature = given.subarray(-signatureBytes);
  const protectedHeader = protectedHeaderOf(checkpoint, keyId);
  const expected = coseReceipt({ protectedHeader, signature }, { index, path, size: checkpoint.size });
  if (Buffer.compare(given, expected) !== 0) {
    const own = Buffer.concat([encodeCbor(header.keyId), encodeCbor(Buffer.from(keyId, "hex"))]);
    const at = Buffer.from(expected).indexOf(own);
    expected.set(given.subarray(at + 2, at + own.length), at + 2);
    if (Buffer.compare(given, expected) !== 0) throw new NoteError("The COSE receipt is not of this leaf and tree.");
    return;
  }
  if (!verify(toBeSigned(protectedHeader, checkpoint.root), signature))
    throw new NoteError("The COSE receipt has a wrong signature by the trusted key.");
}

/** The key is named by its id of signed notes; `iss` is the origin, `sub` the tree's size. */
function protectedHeaderOf({ origin, size }: Checkpoint, keyId: string): Uint8Array {
  return encodeCbor(
    new Map<number, Cbor>([
      [header.algorithm, edDsa],
      [header.keyId, Buffer.from(keyId, "hex")],
      [header.claims, new Map([[claim.issuer, origin] as const, [claim.subject, `${size}`]])],
      [header.dataStructure, rfc9162Sha256],
    ]),
  );
}

/** The Sig_structure (RFC 9052 §4.4). Its first byte begins no UTF-8 text, so it is never the text of a note. */
function toBeSigned(protectedHeader: Uint8Array, payload: Uint8Array): Uint8Array {
  return encodeCbor(["Signature1", protectedHeader, new Uint8Array(0), payload]);
}

// Deterministic CBOR (RFC 8949 §4.2.1), as far as receipts need it.

type Cbor = number | string | Uint8Array | null | readonly Cbor[] | ReadonlyMap<number, Cbor>;

/** Encodes integers up to 2^53 - 1. The keys of a map must be in the order of their encodings: 1, 4, 395, -1. */
function encodeCbor(value: Cbor): Buffer {
  if (value === null) return Buffer.of(0xf6);
  if (typeof value === "number") return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === "string") return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([head(2, value.length), value]);
  if (value instanceof Map) {
    const members = [...(value as ReadonlyMap<number, Cbor>)].flat() as Cbor[];
    return Buffer.concat([head(5, value.size), ...members.map(encodeCbor)]);
  }
  const items = value as readonly Cbor[];
  return Buffer.concat([head(4, items.length), ...items.map(encodeCbor)]);
}

/** Major type and argument, in the fewest bytes. */
function head(major: number, argument: number): Buffer {
  const type = major << 5;
  if (argument < 24) return Buffer.of(type | argument);
  const width = argument < 2 ** 8 ? 0 : argument < 2 ** 16 ? 1 : argument < 2 ** 32 ? 2 : 3;
  const bytes = Buffer.alloc(1 + 2 ** width);
  bytes[0] = type | (24 + width);
  if (width === 3) bytes.writeBigUInt64BE(BigInt(argument), 1);
  else bytes.writeUIntBE(argument, 1, 2 ** width);
  return bytes;
}
