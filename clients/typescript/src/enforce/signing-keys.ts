/** Signatures by a key of this process or of a key service: Ed25519, or ECDSA with P-256. */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify, type webcrypto } from "node:crypto";
import { EnforcementError } from "./errors.ts";
import type { KeyProvider } from "./keys.ts";

/** Signs with one private key, or only verifies: Ed25519 (RFC 8032), or ECDSA with P-256 and SHA-256 in DER. */
export interface SigningKey extends Pick<KeyProvider, "provider" | "reference" | "transport"> {
  /** Returns the signature. Absent if only the public half is known. */
  readonly sign?: (message: Uint8Array) => Promise<Uint8Array>;
  /** Whether the signature is this key's. Rejects with `unavailable` if that cannot be checked. */
  verify(message: Uint8Array, signature: Uint8Array): Promise<boolean>;
}

type Jwk = Readonly<Record<string, unknown>>;

/** A key of this process, as a JWK of type `OKP` (RFC 8037) or `EC`: with `d` it signs, without it verifies. */
export function localSigningKey(reference: string, jwk: Jwk): SigningKey {
  const { publicKey, privateKey } = pairOf(jwk);
  const hash = jwk.kty === "EC" ? "sha256" : null;
  return {
    provider: "local",
    reference,
    transport: "local_provided",
    ...(privateKey !== undefined && { sign: async (message: Uint8Array) => sign(hash, message, privateKey) }),
    verify: async (message, signature) => verify(hash, message, publicKey, signature),
  };
}

function pairOf({ kty, crv, x, y, d }: Jwk): { readonly publicKey: KeyObject; readonly privateKey?: KeyObject } {
  try {
    const isEd25519 = kty === "OKP" && crv === "Ed25519";
    if (!isEd25519 && !(kty === "EC" && crv === "P-256")) throw new Error("another type or curve");
    const key = { kty, crv, x, ...(!isEd25519 && { y }) } as webcrypto.JsonWebKey;
    const publicKey = createPublicKey({ key, format: "jwk" });
    if (d === undefined) return { publicKey };
    const privateKey = createPrivateKey({ key: { ...key, d } as webcrypto.JsonWebKey, format: "jwk" });
    // Otherwise its signatures would not verify.
    if (!createPublicKey(privateKey).equals(publicKey)) throw new Error("its public half is not of d");
    return { publicKey, privateKey };
  } catch (cause) {
    throw new EnforcementError("invalid", "a signing key is a JWK of Ed25519 (OKP) or P-256 (EC)", { cause });
  }
}
