/** Ed25519 keys of signed notes (C2SP signed-note). */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { formatBase64, parseBase64 } from "../../base/text-forms.ts";

/** Supported signature types of C2SP signed-note: Ed25519, and cosignatures of C2SP tlog-cosignature. */
export const ed25519Type = 0x01;
export const cosignatureType = 0x04;
type SignatureType = typeof ed25519Type | typeof cosignatureType;
const publicKeyBytes = 32;
/** DER prefix of the 32 bytes of a public or private key (RFC 8410 §4, §7). */
const spkiPrefix = Buffer.from("302a300506032b6570032100", "hex");
const pkcs8Prefix = Buffer.from("302e020100300506032b657004220420", "hex");

/** Verifies signatures of one key name. */
export interface NoteVerifier {
  readonly name: string;
  /** First four bytes of the SHA-256 of name, type and key: 8 hexadecimal digits. */
  readonly keyId: string;
  verify(text: Uint8Array, signature: Uint8Array): boolean;
}

/** Signs with one key name. Ed25519 is deterministic: the same text gives the same signature. */
export interface NoteSigner {
  readonly name: string;
  readonly keyId: string;
  /** 64 bytes. */
  sign(text: Uint8Array): Uint8Array;
}

/** Key names are not empty and hold no space, no plus sign (C2SP signed-note) and no control character. */
export function isKeyName(name: string): boolean {
  return /^[^\s+\p{Cc}]+$/u.test(name) && name.isWellFormed();
}

export interface SigningKey {
  readonly privateKey: KeyObject;
  /** 32 bytes (RFC 8032 §5.1.5). */
  readonly publicKey: Uint8Array;
}

/** Returns the key pair of a private key. Throws a TypeError if it is of another kind. */
export function signingKey(privateKey: KeyObject): SigningKey {
  if (privateKey.type !== "private" || privateKey.asymmetricKeyType !== "ed25519")
    throw new TypeError("The key is not an Ed25519 private key.");
  const spki = createPublicKey(privateKey).export({ format: "der", type: "spki" });
  return { privateKey, publicKey: spki.subarray(spkiPrefix.length) };
}

/** Returns the key pair of a 32-byte seed (RFC 8032 §5.1.5). */
export function signingKeyOf(seed: Uint8Array): SigningKey {
  if (seed.length !== 32) throw new RangeError("An Ed25519 private key has 32 bytes.");
  return signingKey(createPrivateKey({ key: Buffer.concat([pkcs8Prefix, seed]), format: "der", type: "pkcs8" }));
}

export function noteSigner(name: string, { privateKey, publicKey }: SigningKey): NoteSigner {
  return { name, keyId: keyIdOf(name, publicKey, ed25519Type), sign: (text) => sign(null, text, privateKey) };
}

/** Returns the `vkey` line to verify signatures of the public key with this name. */
export function formatVerifierKey(name: string, publicKey: Uint8Array, type: SignatureType = ed25519Type): string {
  const encoded = formatBase64(Buffer.concat([Uint8Array.of(type), publicKey]));
  return `${name}+${keyIdOf(name, publicKey, type)}+${encoded}`;
}

/** Parses a `vkey`. Undefined if it is malformed, of another type, or its id does not match its key. */
export function parseVerifierKey(vkey: string): NoteVerifier | undefined {
  const parsed = parseNamedKey(vkey, ed25519Type);
  if (parsed === undefined) return undefined;
  const { name, keyId, key } = parsed;
  return { name, keyId, verify: (text, signature) => verify(null, text, key, signature) };
}

/** Parses a `vkey` of this type, like `parseVerifierKey`. */
export function parseNamedKey(vkey: string, type: SignatureType) {
  const [, name, keyId, encoded] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/su.exec(vkey) ?? [];
  if (name === undefined || keyId === undefined || encoded === undefined || !isKeyName(name)) return undefined;
  const bytes = parseBase64(encoded);
  if (bytes === undefined || bytes.length !== 1 + publicKeyBytes || bytes[0] !== type) return undefined;
  const raw = bytes.subarray(1);
  if (keyIdOf(name, raw, type) !== keyId) return undefined;
  return { name, keyId, key: createPublicKey({ key: Buffer.concat([spkiPrefix, raw]), format: "der", type: "spki" }) };
}

/** First four bytes of the SHA-256 of name, newline, type and key (C2SP signed-note): 8 hexadecimal digits. */
export function keyIdOf(name: string, publicKey: Uint8Array, type: SignatureType): string {
  const digest = createHash("sha256").update(`${name}\n`).update(Uint8Array.of(type)).update(publicKey).digest();
  return digest.subarray(0, 4).toString("hex");
}
