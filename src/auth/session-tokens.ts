/** Access tokens that the service issues for clients of the session route, and their keys. */
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { calculateJwkThumbprint, createLocalJWKSet, type JSONWebKeySet, type JWK, SignJWT } from "jose";
import type { SessionGrant } from "../base/caller.ts";
import type { Clock } from "../base/clock.ts";
import { newRecordId, type RandomFill } from "../base/ids.ts";
import { rememberedBy } from "../base/remembered.ts";
import { candidateKeys, type FindKeys, unknownKey } from "./candidate-keys.ts";

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
  const blocks = pem.match(pemBlock) ?? [];
  if (blocks.length < pem.split("-----BEGIN ").length - 1)
    throw new Error("holds a block that is neither PRIVATE KEY (PKCS #8, without a passphrase) nor PUBLIC KEY");
  const keys = blocks.map(parseKey);
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

const lifetimeSeconds = 300;

/** Claims of these tokens, independent of the issuers' claims. */
export const sessionClaimNames = { tenant: "tenant_id", principal: "principal_id", subject: "sub", scope: "scope" };

/** The claim that contains the caller's attributes. */
export const sessionAttributesClaim = "attributes";

export interface SessionKeySource {
  readonly current: SessionKeys;
  /** Changes with the keys. */
  readonly revision: number;
}

export interface SessionTokenRule {
  /** `iss` of the tokens; differs from every issuer's. */
  readonly issuer: string;
  readonly audience: string;
  readonly keys: SessionKeySource;
}

interface SessionTokenOptions extends SessionTokenRule {
  readonly clock: Clock;
  readonly random: RandomFill;
}

/**
 * Creates the signer of tokens: `at+jwt` (RFC 9068), 300 seconds. Client, principal and subject are the same. A token
 * can only be revoked by removing its key from the set.
 */
export function createSessionTokens({ issuer, audience, keys, clock, random }: SessionTokenOptions) {
  return {
    async sign({ tenantId, clientId, scopes, attributes, certificateThumbprint }: SessionGrant) {
      const { kid, alg, privateKey } = keys.current.signing;
      const issuedAtSeconds = Math.floor(clock.now() / 1000);
      const accessToken = await new SignJWT({
        iss: issuer,
        aud: audience,
        sub: clientId,
        client_id: clientId,
        tenant_id: tenantId,
        principal_id: clientId,
        scope: scopes.join(" "),
        iat: issuedAtSeconds,
        exp: issuedAtSeconds + lifetimeSeconds,
        jti: newRecordId(clock, random),
        ...(attributes !== undefined && { [sessionAttributesClaim]: attributes }),
        ...(certificateThumbprint !== undefined && { cnf: { "x5t#S256": certificateThumbprint } }),
      })
        .setProtectedHeader({ alg, kid, typ: "at+jwt" })
        .sign(privateKey);
      return { accessToken, expiresInSeconds: lifetimeSeconds, subject: clientId };
    },
  };
}

const keySetOf = rememberedBy(createLocalJWKSet);

/** Finds the key of a token among the service's keys only. */
export function sessionKeyFinder(source: SessionKeySource): FindKeys {
  return async (header) => {
    const keys = await candidateKeys(keySetOf(source.current.published), header);
    if (keys.length > 0) return keys;
    throw unknownKey();
  };
}
