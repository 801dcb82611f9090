/**
 * The envelope: a line that names the format, a header, and the ciphertext. The header's `binding` (decision, policy
 * revision, resource, labels) is bound into the payload's associated data; its `key` block, together with the binding,
 * into that of the wrapped content key. So nothing of it can change without being noticed. docs/enforcement.md has the
 * bytes.
 */
import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import type { ByteReader } from "./byte-reader.ts";
import { EnforcementError } from "./errors.ts";
import { type StreamingAead, segmentSizes } from "./streaming-aead.ts";

export const envelopeFormat = "svc-platform-envelope/v1";
const magic = Buffer.from(`${envelopeFormat}\n`);
const maxHeaderBytes = 131_072;

/** What is protected under which decision; stays the same however often the key is rewrapped. */
export interface EnvelopeBinding {
  readonly aead: StreamingAead;
  readonly decision_id: string;
  readonly labels: readonly string[];
  readonly policy_revision: string;
  readonly resource: { readonly id?: string; readonly kind: string; readonly mime_type?: string };
}

/** Which key wraps the content key, and the key-access decision that allowed it. */
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

/** Bytes in front of the ciphertext. */
export function encodeHeader(header: EnvelopeHeader): Buffer {
  const bytes = canonical(header);
  if (bytes.length > maxHeaderBytes) throw new EnforcementError("invalid", "the header would be too long");
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([magic, length, bytes]);
}

/** Reads the header and leaves the reader at the ciphertext. Rejects with `not_authentic`. Nothing is authenticated yet. */
export async function readHeader(reader: ByteReader): Promise<EnvelopeHeader> {
  if (!(await reader.read(magic.length)).equals(magic)) throw malformed("it is no envelope of this format");
  const length = await reader.read(4);
  const sizeBytes = length.length === 4 ? length.readUInt32BE() : 0;
  if (sizeBytes === 0 || sizeBytes > maxHeaderBytes) throw malformed("its header has no length that can be");
  const bytes = await reader.read(sizeBytes);
  const value = parseJson(bytes);
  // One text for every header: no duplicate member, no other order, no space rides along unauthenticated.
  if (!isHeader(value) || !canonical(value).equals(bytes)) throw malformed("its header is not in canonical form");
  return value;
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (cause) {
    throw malformed("its header cannot be read", cause);
  }
}

/** RFC 8785. */
function canonical(value: unknown): Buffer {
  const text = canonicalize(value);
  if (text === undefined || !text.isWellFormed()) throw new EnforcementError("invalid", "not a JSON value");
  return Buffer.from(text);
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}

function malformed(what: string, cause?: unknown): EnforcementError {
  return new EnforcementError("not_authentic", `the artifact cannot be read: ${what}`, { cause });
}

function isHeader(value: unknown): value is EnvelopeHeader {
  if (!hasMembers(value, ["binding", "key"])) return false;
  const { binding, key } = value;
  return (
    hasMembers(binding, ["aead", "decision_id", "labels", "policy_revision", "resource"]) &&
    areTexts(binding, ["aead", "decision_id", "policy_revision"]) &&
    Object.hasOwn(segmentSizes, binding.aead as string) &&
    Array.isArray(binding.labels) &&
    binding.labels.every((label) => typeof label === "string") &&
    hasMembers(binding.resource, ["kind"], ["id", "mime_type"]) &&
    areTexts(binding.resource, Object.keys(binding.resource)) &&
    hasMembers(key, ["decision_id", "provider", "reference", "wrapped"]) &&
    areTexts(key, Object.keys(key))
  );
}

function hasMembers(
  value: unknown,
  required: readonly string[],
  optional: readonly string[] = [],
): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const names = Object.keys(value);
  return (
    required.every((name) => names.includes(name)) &&
    names.every((name) => required.includes(name) || optional.includes(name))
  );
}

function areTexts(value: Readonly<Record<string, unknown>>, members: readonly string[]): boolean {
  return members.every((member) => typeof value[member] === "string");
}
