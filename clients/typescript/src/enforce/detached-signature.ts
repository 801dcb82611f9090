/**
 * The detached signature: a DSSE envelope (https://github.com/secure-systems-lab/dsse) around an in-toto Statement about
 * the data, whose predicate is a header that names the decision; optionally inside a Sigstore bundle. It is canonical
 * JSON inside and outside, and what DSSE leaves unsigned is fixed or repeats the payload, so that every change of what it
 * says is detected. An ECDSA signature has a second valid value (r, n − s) for the same statement. Signatures of the old form have the header alone as payload. docs/enforcement.md has the members.
 */
import { Digesting, digestOfBytes } from "./data.ts";
import { EnforcementError } from "./errors.ts";
import {
  areTexts,
  type Binding,
  canonical,
  decodeBase64,
  encodeCanonical,
  hasMembers,
  isBinding,
  isReference,
  malformed,
  parseCanonical,
} from "./header.ts";
import { type RandomAccess, readAt, withSource } from "./random-access.ts";
import type { SigningKey } from "./signing-keys.ts";

const payloadType = "application/vnd.in-toto+json";
const oldPayloadType = "application/vnd.svc-platform.detached-signature.v1+json";
const predicateType = "urn:svc-platform:detached-signature:v1";
const bundleMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json";
const maxFileBytes = 262_144;

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
  /** The signed bytes. */
  readonly message: Buffer;
  readonly signature: Buffer;
  readonly isBundle: boolean;
}

/** An in-toto Statement (github.com/in-toto/attestation, spec/v1). */
interface Statement {
  readonly predicate: SignatureHeader;
}

interface Dsse {
  readonly payload: string;
  readonly payloadType: string;
  readonly signatures: readonly [{ readonly keyid: string; readonly sig: string }];
}

/** A Sigstore bundle (github.com/sigstore/protobuf-specs) without certificate or log entries. */
interface Bundle {
  readonly dsseEnvelope: Dsse;
  readonly mediaType: string;
  readonly verificationMaterial: { readonly publicKey: { readonly hint: string } };
}

/** The bytes that DSSE signs (its protocol, "Signature Definition"). */
export function preAuthenticationEncoding(payloadType: string, payload: Uint8Array): Buffer {
  const type = Buffer.from(payloadType);
  return Buffer.concat([Buffer.from(`DSSEv1 ${type.length} `), type, Buffer.from(` ${payload.length} `), payload]);
}

/** Bytes of a signature file. Rejects with `invalid` if the key can only verify. */
export async function encodeSignature(header: SignatureHeader, key: SigningKey, isBundle: boolean): Promise<Buffer> {
  if (key.sign === undefined) throw new EnforcementError("invalid", `key ${key.reference} verifies only`);
  const payload = encodeCanonical(statementOf(header), isStatement);
  const message = preAuthenticationEncoding(payloadType, payload);
  const signature = Buffer.from(await key.sign(message));
  // The signature of a key service is verified before it is used.
  if (!(await key.verify(message, signature)))
    throw new EnforcementError("unavailable", `key ${key.reference} gave no signature that it verifies`);
  // With an empty keyid, verifiers try the keys that they trust.
  const signatures = [{ keyid: "", sig: signature.toString("base64") }];
  const dsse = { payload: payload.toString("base64"), payloadType, signatures };
  const material = { publicKey: { hint: key.reference } };
  const bundle = { dsseEnvelope: dsse, mediaType: bundleMediaType, verificationMaterial: material };
  const bytes = encodeCanonical<unknown>(isBundle ? bundle : dsse, isFile);
  if (bytes.length > maxFileBytes) throw new EnforcementError("invalid", "the header would be too long");
  return bytes;
}

function statementOf(header: SignatureHeader) {
  const { content_digest, resource } = header.binding;
  return {
    _type: "https://in-toto.io/Statement/v1",
    predicate: header,
    predicateType,
    subject: [{ digest: { sha256: content_digest.slice("sha256:".length) }, name: resource.id || resource.kind }],
  };
}

/** Reads a signature file and computes its digest. Rejects with `invalid` or `not_authentic`. */
export function readSignature(input: string | RandomAccess) {
  return withSource(input, async (source) => {
    if (source.sizeBytes > maxFileBytes) throw malformed("it is too long");
    const bytes = await readAt(source, 0, source.sizeBytes);
    return { ...parseSignature(bytes), artifact: digestOfBytes(bytes) };
  });
}

function parseSignature(bytes: Buffer): DetachedSignature {
  const file = parseCanonical(bytes, isFile);
  const bundle = "dsseEnvelope" in file ? file : undefined;
  const dsse = bundle?.dsseEnvelope ?? (file as Dsse);
  const [{ keyid, sig }] = dsse.signatures;
  const payload = decodeBase64(dsse.payload);
  const isOld = dsse.payloadType === oldPayloadType;
  const header = isOld ? parseCanonical(payload, isHeader) : parseCanonical(payload, isStatement).predicate;
  const { reference } = header.key;
  if (keyid !== (isOld ? reference : "") || (bundle?.verificationMaterial.publicKey.hint ?? reference) !== reference)
    throw malformed("it names two keys");
  const message = preAuthenticationEncoding(dsse.payloadType, payload);
  return { header, message, signature: decodeBase64(sig), isBundle: bundle !== undefined };
}

/** Rejects with `not_authentic` unless the header's key made the signature. */
export async function requireSignature(
  { message, signature }: Pick<DetachedSignature, "message" | "signature">,
  key: SigningKey,
): Promise<void> {
  if ((await key.verify(message, signature)) !== true)
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

function isFile(value: unknown): value is Dsse | Bundle {
  if (!hasMembers(value, ["dsseEnvelope", "mediaType", "verificationMaterial"]))
    return isDsse(value, [payloadType, oldPayloadType]);
  const { dsseEnvelope, mediaType, verificationMaterial: material } = value;
  return (
    mediaType === bundleMediaType &&
    isDsse(dsseEnvelope, [payloadType]) &&
    hasMembers(material, ["publicKey"]) &&
    hasMembers(material.publicKey, ["hint"]) &&
    areTexts(material.publicKey, ["hint"])
  );
}

function isDsse(value: unknown, types: readonly string[]): value is Dsse {
  if (!hasMembers(value, ["payload", "payloadType", "signatures"]) || !areTexts(value, ["payload", "payloadType"]))
    return false;
  const { payloadType: type, signatures } = value;
  if (!types.includes(type as string) || !Array.isArray(signatures) || signatures.length !== 1) return false;
  const [signature] = signatures as unknown[];
  return hasMembers(signature, ["keyid", "sig"]) && areTexts(signature, ["keyid", "sig"]);
}

/** Whether all of it follows from its predicate. */
function isStatement(value: unknown): value is Statement {
  const predicate = hasMembers(value, ["_type", "predicate", "predicateType", "subject"]) && value.predicate;
  return isHeader(predicate) && canonical(statementOf(predicate)).equals(canonical(value));
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
