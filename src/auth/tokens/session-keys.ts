/** Keys of the access tokens that the service issues. */
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { calculateJwkThumbprint, type JSONWebKeySet, type JWK } from "jose";

export interface SessionKeys {
  readonly signing: { readonly kid: string; readonly alg: string; readonly privateKey: KeyObject };
  /** The verification keys, the signing key's first (RFC 7517 §5). */
  readonly published: JSONWebKeySet;
}

const pemBlock = /-----BEGIN (PRIVATE|PUBLIC) KEY-----[^-]+-----END \1 KEY-----/g;

/**
 * Parses PEM: one or more keys (PKCS #8 private or SPKI public, P-256 or Ed25519, no passphrase). The first is private
 * and signs; all of them verify. A key's id is its RFC 7638 thumbprint.
 * @throws Error that describes the problem without repeating the text
 */
export async function parseSessionKeys(pem: string): Promise<SessionKeys> {
  const keys = (pem.match(pemBlock) ?? []).map(parseKey);
  const [first] = keys;
  if (first === undefined) throw new Error("holds no key in PEM, without a passphrase");
  if (first.type !== "private") throw new Error("must begin with a private key, which signs");
  const published = await Promise.all(keys.map(publishedKey));
  const ids = new Set(published.map(({ kid }) => kid));
  if (ids.size < published.length) throw new Error("holds a key twice");
  const [{ kid, alg }] = published as [PublishedKey];
  return { signing: { kid, alg, privateKey: first }, published: { keys: published } };
}

function parseKey(pem: string): KeyObject {
  try {
    return pem.includes("PRIVATE") ? createPrivateKey(pem) : createPublicKey(pem);
  } catch {
    throw new Error("holds a key that does not parse");
  }
}

type PublishedKey = JWK & { readonly kid: string; readonly alg: string };

async function publishedKey(key: KeyObject): Promise<PublishedKey> {
  const alg = algorithmOf(key);
  if (alg === undefined) throw new Error("holds a key that is neither P-256 nor Ed25519");
  const jwk = (key.type === "private" ? createPublicKey(key) : key).export({ format: "jwk" }) as JWK;
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg, use: "sig" };
}

function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string | undefined {
  if (asymmetricKeyType === "ed25519") return "EdDSA";
  return asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1" ? "ES256" : undefined;
}
