/** What signs and verifies: Ed25519 (RFC 8032), by a key that this process holds or one that a key service keeps. */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { EnforcementError } from "./errors.ts";
import type { KeyProvider } from "./keys.ts";

/** Signs under one private key, or verifies only. */
export interface SigningKey extends Pick<KeyProvider, "provider" | "reference" | "transport"> {
  /** The signature, 64 bytes. Absent where only the public half is here. */
  readonly sign?: (message: Uint8Array) => Promise<Uint8Array>;
  /** Whether the signature is this key's over the message. Rejects with `unavailable` where that cannot be said. */
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
    // Else it would sign what nobody verifies.
    if (!createPublicKey(privateKey).equals(publicKey)) throw new Error("x is not of d");
    return { publicKey, privateKey };
  } catch (cause) {
    throw new EnforcementError("invalid", "a signing key is a JWK of type OKP, curve Ed25519", { cause });
  }
}
