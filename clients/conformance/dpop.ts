/** Verifies DPoP proofs (RFC 9449 §4.3). */
import { createHash } from "node:crypto";
import { calculateJwkThumbprint, EmbeddedJWK, type JWK, jwtVerify } from "jose";

export interface VerifiedProof {
  readonly jti: string;
  readonly nonce?: string;
  /** RFC 7638, of the key that signed it. */
  readonly thumbprint: string;
}

/**
 * The proof's claims, or what is wrong with it.
 *
 * @param used ids of the proofs so far; the proof's own is added
 */
export async function verifyProof(
  proof: string,
  target: { readonly method: string; readonly url: string; readonly token?: string },
  used: Set<string>,
): Promise<VerifiedProof | string> {
  try {
    const { payload, protectedHeader } = await jwtVerify(proof, EmbeddedJWK, {
      typ: "dpop+jwt",
      algorithms: ["ES256", "ES384", "EdDSA", "Ed25519", "PS256", "RS256"],
    });
    const { htm, htu, ath, iat = 0, jti, nonce } = payload;
    if (protectedHeader.jwk !== undefined && "d" in protectedHeader.jwk) return "the proof carries the private key";
    if (htm !== target.method) return `htm is ${htm}, not ${target.method}`;
    if (htu !== target.url) return `htu is ${htu}, not ${target.url}`;
    const expectedAth = target.token && createHash("sha256").update(target.token).digest("base64url");
    if (ath !== expectedAth) return "ath is not the hash of the token";
    if (Math.abs(Date.now() / 1000 - iat) > 120) return "iat is not now";
    if (typeof jti !== "string" || jti.length < 12) return "jti has too little in it";
    if (used.has(jti)) return "jti was used before";
    used.add(jti);
    const thumbprint = await calculateJwkThumbprint(protectedHeader.jwk as JWK);
    return { jti, thumbprint, ...(typeof nonce === "string" && { nonce }) };
  } catch (error) {
    return String(error);
  }
}
