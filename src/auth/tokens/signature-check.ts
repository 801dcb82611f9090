/** A look at a signature that may only refuse: a forged token must not cost more than a good one that is remembered. */
import { constants, KeyObject, verify } from "node:crypto";
import type { CryptoKey } from "jose";

const keyObjects = new WeakMap<CryptoKey, KeyObject>();

/**
 * Whether the signature of a token (JWS in compact form) may be right. WebCrypto, which the library uses, takes
 * several times as long to say so, on this thread and on others; so it is asked only where this says yes, and what it
 * says counts. What cannot be told is left to it too.
 */
export function mayBeSigned(token: string, alg: string, key: CryptoKey): boolean {
  const end = token.lastIndexOf(".");
  try {
    return verify(
      alg.startsWith("Ed") ? null : `sha${alg.slice(2)}`,
      Buffer.from(token.slice(0, end), "latin1"),
      { key: keyObjectOf(key), ...parameters[alg.slice(0, 2)] },
      Buffer.from(token.slice(end + 1), "base64url"),
    );
  } catch {
    return true;
  }
}

/** By the first two letters of an algorithm (RFC 7518 §3.1, RFC 8037 §3.1). */
const parameters: Readonly<Record<string, object>> = {
  RS: { padding: constants.RSA_PKCS1_PADDING },
  PS: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST },
  ES: { dsaEncoding: "ieee-p1363" },
};

function keyObjectOf(key: CryptoKey): KeyObject {
  const known = keyObjects.get(key);
  if (known !== undefined) return known;
  const made = KeyObject.from(key);
  keyObjects.set(key, made);
  return made;
}
