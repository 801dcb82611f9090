/** Keys of a key access service (KAS), which wrap shares of a TDF's payload key by their public half alone. */
import {
  constants,
  createCipheriv,
  createDecipheriv,
  createHash,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  privateDecrypt,
  publicEncrypt,
  randomBytes,
  type webcrypto,
} from "node:crypto";
import { EnforcementError } from "./errors.ts";
import { decodeBase64 } from "./header.ts";
import { type KeyProvider, keySize } from "./keys.ts";

/** As in the key access object of a manifest. */
export interface WrappedShare {
  /** Base64. */
  readonly wrappedKey: string;
  /** PEM, for `ec-wrapped`. */
  readonly ephemeralPublicKey?: string;
}

export interface TdfKey extends Pick<KeyProvider, "provider" | "reference" | "transport"> {
  /** `wrapped`: RSA-OAEP with SHA-1. `ec-wrapped`: ECDH, HKDF-SHA-256 and AES-256-GCM. */
  readonly type: "wrapped" | "ec-wrapped";
  /** Address of the service that has the private key; readers without it ask there. */
  readonly url: string;
  /** Name of the key at the service. */
  readonly kid: string;
  wrapShare(share: Uint8Array): Promise<WrappedShare>;
  /** Returns the share. Rejects with `not_authentic`, or `unavailable`. Absent if only the public half is known. */
  readonly unwrapShare?: (wrapped: WrappedShare) => Promise<Uint8Array>;
}

export interface TdfKeyOptions {
  readonly url: string;
  /** Default: the reference. */
  readonly kid?: string;
}

const curves: Readonly<Record<string, true>> = { "P-256": true, "P-384": true, "P-521": true };
const minModulusBits = 2048;
const nonceSize = 12;
const tagSize = 16;

/**
 * A key of this process, as a JWK of type `RSA` (at least 2,048 bits) or `EC`. With its private half it opens; without
 * it protects only.
 */
export function localTdfKey(
  reference: string,
  jwk: Readonly<Record<string, unknown>>,
  { url, kid = reference }: TdfKeyOptions,
): TdfKey {
  const { publicKey, privateKey } = pairOf(jwk);
  const [wrap, unwrap] = jwk.kty === "RSA" ? [wrapByRsa, unwrapByRsa] : [wrapByEc, unwrapByEc];
  return {
    provider: "local",
    reference,
    transport: "local_provided",
    type: jwk.kty === "RSA" ? "wrapped" : "ec-wrapped",
    ...{ url: requireUrl(url), kid },
    wrapShare: async (share) => wrap(publicKey, share),
    ...(privateKey !== undefined && {
      unwrapShare: async (wrapped: WrappedShare) => {
        try {
          const share = unwrap(privateKey, wrapped);
          if (share.length !== keySize) throw new Error("it has another size");
          return share;
        } catch (cause) {
          throw new EnforcementError("not_authentic", "a share of the payload key does not open with this key", {
            cause,
          });
        }
      },
    }),
  };
}

function requireUrl(url: string): string {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new EnforcementError("invalid", "a TDF key has the https address of its key access service");
  return url;
}

function pairOf(jwk: Readonly<Record<string, unknown>>) {
  try {
    const { kty, crv, n, e, x, y } = jwk;
    const isEc = kty === "EC" && Object.hasOwn(curves, String(crv));
    if (kty !== "RSA" && !isEc) throw new Error("another type or curve");
    const publicJwk = (isEc ? { kty, crv, x, y } : { kty, n, e }) as webcrypto.JsonWebKey;
    const publicKey = createPublicKey({ key: publicJwk, format: "jwk" });
    if (!isEc && (publicKey.asymmetricKeyDetails?.modulusLength ?? 0) < minModulusBits) throw new Error("too short");
    if (jwk.d === undefined) return { publicKey };
    const privateKey = createPrivateKey({ key: jwk as webcrypto.JsonWebKey, format: "jwk" });
    // Otherwise it would not open what it protects.
    if (!createPublicKey(privateKey).equals(publicKey)) throw new Error("its public half is another key's");
    return { publicKey, privateKey };
  } catch (cause) {
    throw new EnforcementError("invalid", "a TDF key is a JWK of RSA, from 2,048 bits, or of P-256, P-384 or P-521", {
      cause,
    });
  }
}

const oaep = { padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: "sha1" } as const;

function wrapByRsa(key: KeyObject, share: Uint8Array): WrappedShare {
  return { wrappedKey: publicEncrypt({ key, ...oaep }, share).toString("base64") };
}

function unwrapByRsa(key: KeyObject, { wrappedKey }: WrappedShare): Uint8Array {
  return privateDecrypt({ key, ...oaep }, decodeBase64(wrappedKey));
}

function wrapByEc(key: KeyObject, share: Uint8Array): WrappedShare {
  const namedCurve = key.asymmetricKeyDetails?.namedCurve as string;
  const ephemeral = generateKeyPairSync("ec", { namedCurve });
  const nonce = randomBytes(nonceSize);
  const cipher = createCipheriv("aes-256-gcm", agreedKey(ephemeral.privateKey, key), nonce);
  const parts = [nonce, cipher.update(share), cipher.final(), cipher.getAuthTag()];
  return {
    wrappedKey: Buffer.concat(parts).toString("base64"),
    ephemeralPublicKey: ephemeral.publicKey.export({ type: "spki", format: "pem" }) as string,
  };
}

function unwrapByEc(key: KeyObject, { wrappedKey, ephemeralPublicKey = "" }: WrappedShare): Uint8Array {
  const bytes = decodeBase64(wrappedKey);
  const agreed = agreedKey(key, createPublicKey(ephemeralPublicKey));
  const decipher = createDecipheriv("aes-256-gcm", agreed, bytes.subarray(0, nonceSize), { authTagLength: tagSize });
  decipher.setAuthTag(bytes.subarray(-tagSize));
  const share = decipher.update(bytes.subarray(nonceSize, -tagSize));
  decipher.final();
  return share;
}

function agreedKey(privateKey: KeyObject, publicKey: KeyObject): Uint8Array {
  const salt = createHash("sha256").update("TDF").digest();
  return new Uint8Array(hkdfSync("sha256", diffieHellman({ privateKey, publicKey }), salt, "", keySize));
}
