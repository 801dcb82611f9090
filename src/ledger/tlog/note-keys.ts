/** Keys of signed notes (C2SP signed-note): Ed25519, under a name. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { formatBase64, parseBase64 } from "../../base/text-forms.ts";

/** Signature types of C2SP signed-note that this program knows: Ed25519, and cosignatures of C2SP tlog-cosignature. */
export const ed25519Type = 0x01;
export const cosignatureType = 0x04;
type SignatureType = typeof ed25519Type | typeof cosignatureType;
const publicKeyBytes = 32;
/** What stands before the 32 bytes of a public or private key in DER (RFC 8410 §4, §7). */
const spkiPrefix = Buffer.from("302a300506032b6570032100", "hex");
const pkcs8Prefix = Buffer.from("302e020100300506032b657004220420", "hex");

/** Checks signatures under one name. */
export interface NoteVerifier {
  readonly name: string;
  /** First four bytes of the SHA-256 of name, type and key: 8 hexadecimal digits. */
  readonly keyId: string;
  verify(text: Uint8Array, signature: Uint8Array): boolean;
}

/** Signs under one name. Ed25519 is deterministic: the same text gives the same signature. */
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

/** An Ed25519 key pair. */
export interface SigningKey {
  readonly privateKey: KeyObject;
  /** 32 bytes (RFC 8032 §5.1.5). */
  readonly publicKey: Uint8Array;
}

/** The key pair of a private key. Throws a TypeError where it is of another kind. */
export function signingKey(privateKey: KeyObject): SigningKey {
  if (privateKey.type !== "private" || privateKey.asymmetricKeyType !== "ed25519")
    throw new TypeError("The key is no Ed25519 private key.");
  const spki = createPublicKey(privateKey).export({ format: "der", type: "spki" });
  return { privateKey, publicKey: spki.subarray(spkiPrefix.length) };
}

/** The key pair that 32 random bytes are (RFC 8032 §5.1.5). */
export function signingKeyOf(seed: Uint8Array): SigningKey {
  if (seed.length !== 32) throw new RangeError("An Ed25519 private key has 32 bytes.");
  return signingKey(createPrivateKey({ key: Buffer.concat([pkcs8Prefix, seed]), format: "der", type: "pkcs8" }));
}

/** A signer of notes under the name. */
export function noteSigner(name: string, { privateKey, publicKey }: SigningKey): NoteSigner {
  return { name, keyId: keyIdOf(name, publicKey, ed25519Type), sign: (text) => sign(null, text, privateKey) };
}

/** The `vkey` line under which anyone verifies what the owner of the public key signs by this name. */
export function formatVerifierKey(name: string, publicKey: Uint8Array, type: SignatureType = ed25519Type): string {
  const encoded = formatBase64(Buffer.concat([Uint8Array.of(type), publicKey]));
  return `${name}+${keyIdOf(name, publicKey, type)}+${encoded}`;
}

/** Reads a `vkey`. Returns undefined for one that is malformed, of another type, or whose id is not its key's. */
export function parseVerifierKey(vkey: string): NoteVerifier | undefined {
  const parsed = parseNamedKey(vkey, ed25519Type);
  if (parsed === undefined) return undefined;
  const { name, keyId, key } = parsed;
  return { name, keyId, verify: (text, signature) => verify(null, text, key, signature) };
}

/** An Ed25519 public key under a name, for signatures of one type. */
export interface NamedKey {
  readonly name: string;
  /** 8 hexadecimal digits. */
  readonly keyId: string;
  readonly key: KeyObject;
}

/** Reads a `vkey` of this type, like `parseVerifierKey`. */
export function parseNamedKey(vkey: string, type: SignatureType): NamedKey | undefined {
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
