/**
 * The detached signature: a DSSE envelope (https://github.com/secure-systems-lab/dsse) whose payload is a header that
 * names the data and the decision. It is canonical JSON inside and outside, and the payload repeats what DSSE leaves
 * unsigned, so that every change is detected. docs/enforcement.md has the members.
 */
import { Digesting, readSmallFile } from "./data.ts";
import { EnforcementError } from "./errors.ts";
import {
  areTexts,
  type Binding,
  encodeCanonical,
  hasMembers,
  isBinding,
  isReference,
  malformed,
  parseCanonical,
} from "./header.ts";
import type { SigningKey } from "./signing-keys.ts";

export const signaturePayloadType = "application/vnd.svc-platform.detached-signature.v1+json";
const maxFileBytes = 262_144;
const signatureBytes = 64;

export interface SignatureBinding extends Binding {
  /** SHA-256 of the data: `sha256:` and hexadecimal digits. */
  readonly content_digest: string;
  readonly content_size_bytes: number;
}

export interface SignatureHeader {
  readonly binding: SignatureBinding;
  /** The signing key, and the key-access decision that allowed it. */
  readonly key: { readonly decision_id: string; readonly reference: string };
}

/** Content of a signature file, not verified. */
export interface DetachedSignature {
  readonly header: SignatureHeader;
  readonly payload: Buffer;
  readonly signature: Buffer;
}

interface Dsse {
  readonly payload: string;
  readonly payloadType: string;
  readonly signatures: readonly { readonly keyid: string; readonly sig: string }[];
}

/** The bytes that DSSE signs (its protocol, "Signature Definition"). */
export function preAuthenticationEncoding(payloadType: string, payload: Uint8Array): Buffer {
  const type = Buffer.from(payloadType);
  return Buffer.concat([Buffer.from(`DSSEv1 ${type.length} `), type, Buffer.from(` ${payload.length} `), payload]);
}

/** Bytes of a signature file. Rejects with `invalid` if the key can only verify. */
export async function encodeSignature(header: SignatureHeader, key: SigningKey): Promise<Buffer> {
  if (key.sign === undefined) throw new EnforcementError("invalid", `key ${key.reference} verifies only`);
  const payload = encodeCanonical(header, isHeader);
  const message = preAuthenticationEncoding(signaturePayloadType, payload);
  const signature = Buffer.from(await key.sign(message));
  // The signature of a key service is verified before it is used.
  if (signature.length !== signatureBytes || !(await key.verify(message, signature)))
    throw new EnforcementError("unavailable", `key ${key.reference} gave no signature that it verifies`);
  const signatures = [{ keyid: key.reference, sig: signature.toString("base64") }];
  const dsse = { payload: payload.toString("base64"), payloadType: signaturePayloadType, signatures };
  const bytes = encodeCanonical(dsse, isDsse);
  if (bytes.length > maxFileBytes) throw new EnforcementError("invalid", "the header would be too long");
  return bytes;
}

/** Reads a signature file and computes its digest. Rejects with `invalid` or `not_authentic`. */
export async function readSignature(path: string) {
  const bytes = await readSmallFile(path, maxFileBytes);
  const artifact = new Digesting();
  artifact.update(bytes);
  return { ...parseSignature(bytes), artifact: artifact.finish() };
}

function parseSignature(bytes: Buffer): DetachedSignature {
  const { payload: payloadText, signatures } = parseCanonical(bytes, isDsse);
  const [{ keyid, sig } = { keyid: "", sig: "" }] = signatures;
  const payload = decode(payloadText);
  const header = parseCanonical(payload, isHeader);
  if (keyid !== header.key.reference) throw malformed("it names two keys");
  return { header, payload, signature: decode(sig) };
}

/** Rejects with `not_authentic` unless the header's key made the signature. */
export async function requireSignature(
  { payload, signature }: Pick<DetachedSignature, "payload" | "signature">,
  key: SigningKey,
): Promise<void> {
  const message = preAuthenticationEncoding(signaturePayloadType, payload);
  if (signature.length !== signatureBytes || (await key.verify(message, signature)) !== true)
    throw new EnforcementError("not_authentic", "the signature is not of this key and header");
}

/** Passes on the signed data; rejects with `not_authentic` if it is longer, or, at its end, if it differs. */
export async function* requireContent(
  data: AsyncIterable<Uint8Array>,
  { content_digest, content_size_bytes }: SignatureBinding,
): AsyncGenerator<Uint8Array> {
  const content = new Digesting();
  for await (const piece of data) {
    content.update(piece);
    if (content.sizeBytes > content_size_bytes) throw otherData();
    yield piece;
  }
  if (content.sizeBytes !== content_size_bytes || content.finish().digest !== content_digest) throw otherData();
}

const otherData = () => new EnforcementError("not_authentic", "the data is not what was signed");

/** RFC 4648 section 4, canonical only. */
function decode(text: string): Buffer {
  const bytes = Buffer.from(text, "base64");
  if (bytes.toString("base64") !== text) throw malformed("its base64 is not canonical");
  return bytes;
}

function isDsse(value: unknown): value is Dsse {
  if (!hasMembers(value, ["payload", "payloadType", "signatures"]) || !areTexts(value, ["payload"])) return false;
  const { payloadType, signatures } = value;
  if (payloadType !== signaturePayloadType || !Array.isArray(signatures) || signatures.length !== 1) return false;
  const [signature] = signatures as unknown[];
  return hasMembers(signature, ["keyid", "sig"]) && areTexts(signature, ["keyid", "sig"]);
}

function isHeader(value: unknown): value is SignatureHeader {
  if (!hasMembers(value, ["binding", "key"])) return false;
  const { binding, key } = value;
  return (
    isBinding(binding, ["content_digest", "content_size_bytes"]) &&
    /^sha256:[0-9a-f]{64}$/.test(String(binding.content_digest)) &&
    Number.isSafeInteger(binding.content_size_bytes) &&
    (binding.content_size_bytes as number) >= 0 &&
    hasMembers(key, ["decision_id", "reference"]) &&
    areTexts(key, ["decision_id", "reference"]) &&
    isReference(key.reference)
  );
}
