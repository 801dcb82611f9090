/**
 * The envelope: a line that names the format, a header, and the ciphertext. The header's `binding` (decision, policy
 * revision, resource, labels) is bound into the payload's associated data; its `key` block, together with the binding,
 * into that of the wrapped content key. So every change is detected. docs/enforcement.md has the bytes.
 */
import { createHash, createHmac } from "node:crypto";
import type { ByteReader } from "./byte-reader.ts";
import { EnforcementError } from "./errors.ts";
import {
  areTexts,
  type Binding,
  canonical,
  encodeCanonical,
  hasMembers,
  isBinding,
  isReference,
  malformed,
  parseCanonical,
} from "./header.ts";
import { keySize } from "./keys.ts";
import { type StreamingAead, segmentSizes } from "./streaming-aead.ts";

export const envelopeFormat = "svc-platform-envelope/v1";
const magic = Buffer.from(`${envelopeFormat}\n`);
const maxHeaderBytes = 131_072;

export interface EnvelopeBinding extends Binding {
  readonly aead: StreamingAead;
  /**
   * Commits to the content key, because a ciphertext of AES-GCM may open with two keys. Absent in files of the old
   * form.
   */
  readonly key_commitment?: string;
}

/** Commitment of a binding to its content key. */
export function keyCommitment(contentKey: Uint8Array): string {
  const commitment = createHmac("sha256", contentKey).update(`${envelopeFormat}/commitment`);
  return `hmac-sha256:${commitment.digest("hex")}`;
}

/** Throws `not_authentic` if it is not a content key, or not the one that the binding commits to. */
export function requireContentKey(contentKey: Uint8Array, { key_commitment }: EnvelopeBinding): void {
  const isCommitted = key_commitment === undefined || keyCommitment(contentKey) === key_commitment;
  if (contentKey.length !== keySize || !isCommitted)
    throw new EnforcementError("not_authentic", "the content key is not the one that the header commits to");
}

/** The key that wraps the content key, and the key-access decision that allowed it. */
export interface KeyBinding {
  readonly decision_id: string;
  readonly provider: string;
  readonly reference: string;
}

export interface EnvelopeHeader {
  readonly binding: EnvelopeBinding;
  readonly key: KeyBinding & { readonly wrapped: string };
}

/** Associated data of the payload. */
export function payloadAssociatedData(binding: EnvelopeBinding): Buffer {
  return Buffer.concat([Buffer.from(`${envelopeFormat}/payload\0`), sha256(canonical(binding))]);
}

/** Associated data of the wrapped content key. */
export function keyAssociatedData(binding: EnvelopeBinding, { decision_id, provider, reference }: KeyBinding): Buffer {
  const bytes = canonical({ binding, key: { decision_id, provider, reference } });
  return Buffer.concat([Buffer.from(`${envelopeFormat}/key\0`), sha256(bytes)]);
}

/** Bytes before the ciphertext. */
export function encodeHeader(header: EnvelopeHeader): Buffer {
  const bytes = encodeCanonical(header, isHeader);
  if (bytes.length > maxHeaderBytes) throw new EnforcementError("invalid", "the header would be too long");
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([magic, length, bytes]);
}

/**
 * Reads the header and leaves the reader at the ciphertext. Rejects with `not_authentic`. Authenticates nothing yet.
 */
export async function readHeader(reader: ByteReader): Promise<EnvelopeHeader> {
  if (!(await reader.read(magic.length)).equals(magic)) throw malformed("it is no envelope of this format");
  const length = await reader.read(4);
  const sizeBytes = length.length === 4 ? length.readUInt32BE() : 0;
  if (sizeBytes === 0 || sizeBytes > maxHeaderBytes) throw malformed("its header has no length that can be");
  const bytes = await reader.read(sizeBytes);
  return parseCanonical(bytes, isHeader);
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}

function isHeader(value: unknown): value is EnvelopeHeader {
  if (!hasMembers(value, ["binding", "key"])) return false;
  const { binding, key } = value;
  return (
    isBinding(binding, ["aead"], ["key_commitment"]) &&
    areTexts(binding, ["aead"]) &&
    (!("key_commitment" in binding) || /^hmac-sha256:[0-9a-f]{64}$/.test(String(binding.key_commitment))) &&
    Object.hasOwn(segmentSizes, binding.aead as string) &&
    hasMembers(key, ["decision_id", "provider", "reference", "wrapped"]) &&
    areTexts(key, Object.keys(key)) &&
    isReference(key.reference)
  );
}
