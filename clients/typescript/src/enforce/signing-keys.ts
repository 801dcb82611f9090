/** Ed25519 signatures (RFC 8032), by a key of this process or of a key service. */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { EnforcementError } from "./errors.ts";
import type { KeyProvider } from "./keys.ts";

/** Signs with one private key, or only verifies. */
export interface SigningKey extends Pick<KeyProvider, "provider" | "reference" | "transport"> {
  /** Returns the signature, 64 bytes. Absent if only the public half is known. */
  readonly sign?: (message: Uint8Array) => Promise<Uint8Array>;
  /** Whether the signature is this key's. Rejects with `unavailable` if that cannot be checked. */
  verify(message: Uint8Array, signature: Uint8Array): Promise<boolean>;
}

/** An Ed25519 key of this process, as a JWK of type `OKP` (RFC 8037): with `d` it signs, without it verifies. */
export function localSigningKey(reference: string, jwk: Readonly<Record<string, unknown>>): SigningKey {
  const { publicKey, privateKey } = pairOf(jwk);
  return {
    provider: "local",
    reference,
    transport: "local_provided",
    ...(privateKey !== undefined && { sign: async (message: Uint8Array) => sign(null, message, privateKey) }),
    verify: async (message, signature) => verify(null, message, publicKey, signature),
  };
}

function pairOf({ kty, crv, x, d }: Readonly<Record<string, unknown>>): {
  readonly publicKey: KeyObject;
  readonly privateKey?: KeyObject;
} {
  try {
    if (kty !== "OKP" || crv !== "Ed25519" || typeof x !== "string") throw new Error("another type or curve");
    const publicKey = createPublicKey({ key: { kty, crv, x }, format: "jwk" });
    if (d === undefined) return { publicKey };
    const privateKey = createPrivateKey({ key: { kty, crv, x, d: d as string }, format: "jwk" });
    // Otherwise its signatures would not verify.
    if (!createPublicKey(privateKey).equals(publicKey)) throw new Error("x is not of d");
    return { publicKey, privateKey };
  } catch (cause) {
    throw new EnforcementError("invalid", "a signing key is a JWK of type OKP, curve Ed25519", { cause });
  }
}
