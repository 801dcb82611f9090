/** Access tokens, right and wrong in every way, signed with keys that a test owns. */
import { constants, createHmac, createSign, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import type { JWK } from "jose";

/** A key pair of a test: the private half signs, the public half is published. */
export interface TestKey {
  readonly algorithm: string;
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  /** What an issuer publishes. */
  readonly publicJwk: JWK;
}

const curves: Readonly<Record<string, string>> = { ES256: "P-256", ES384: "P-384", ES512: "P-521" };

/**
 * Makes a key pair for a JWS algorithm (RFC 7518, RFC 8037).
 * @param modulusBits of RSA keys
 */
export function newTestKey(algorithm: string, kid: string, modulusBits = 2048): TestKey {
  const { privateKey, publicKey } = newPair(algorithm, modulusBits);
  const publicJwk: JWK = { ...(publicKey.export({ format: "jwk" }) as JWK), kid, alg: algorithm, use: "sig" };
  return { algorithm, kid, privateKey, publicKey, publicJwk };
}

function newPair(algorithm: string, modulusBits: number): { privateKey: KeyObject; publicKey: KeyObject } {
  const namedCurve = curves[algorithm];
  if (namedCurve !== undefined) return generateKeyPairSync("ec", { namedCurve });
  if (algorithm.startsWith("Ed")) return generateKeyPairSync("ed25519");
  return generateKeyPairSync("rsa", { modulusLength: modulusBits });
}

export type Members = Readonly<Record<string, unknown>>;

/** Claims of a good token that lives from now for five minutes; a member that is undefined is left out. */
export function claimsOf(issuer: string, nowMs: number, overrides: Members = {}): Members {
  const nowSeconds = Math.floor(nowMs / 1000);
  return {
    iss: issuer,
    aud: "api://svc-platform-api",
    sub: "client-1",
    tenant_id: "tenant-a",
    principal_id: "payroll-service",
    scope: "platform-api.access policy.read",
    iat: nowSeconds,
    exp: nowSeconds + 300,
    jti: "token-1",
    ...overrides,
  };
}

/** Signs the claims as a JWS in compact form with exactly these header members added or, as undefined, left out. */
export function mintToken(key: TestKey, claims: unknown, header: Members = {}): string {
  const input = signingInput({ alg: key.algorithm, kid: key.kid, typ: "at+jwt", ...header }, claims);
  return `${input}.${signatureOf(key, input).toString("base64url")}`;
}

/** A token whose signature is made with HMAC and any bytes as its secret, such as a public key. */
export function mintHmacToken(secret: string | Buffer, claims: unknown, header: Members): string {
  const input = signingInput({ alg: "HS256", typ: "at+jwt", ...header }, claims);
  return `${input}.${createHmac("sha256", secret).update(input).digest("base64url")}`;
}

/** An unsigned token. */
export function mintUnsignedToken(claims: unknown, header: Members = {}): string {
  return `${signingInput({ alg: "none", typ: "at+jwt", ...header }, claims)}.`;
}

/** The token with one part replaced: 0 header, 1 payload, 2 signature. */
export function withPart(token: string, index: 0 | 1 | 2, part: string): string {
  return token.split(".").with(index, part).join(".");
}

/** Base64url of the JSON of a value, or of the text itself. */
export function encodePart(value: unknown): string {
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
}

function signingInput(header: Members, claims: unknown): string {
  return `${encodePart(header)}.${encodePart(claims)}`;
}

function signatureOf({ privateKey, algorithm }: TestKey, input: string): Buffer {
  if (algorithm.startsWith("Ed")) return sign(null, Buffer.from(input), privateKey);
  const signer = createSign(`SHA${algorithm.slice(2)}`).update(input);
  if (algorithm.startsWith("ES")) return signer.sign({ key: privateKey, dsaEncoding: "ieee-p1363" });
  if (algorithm.startsWith("RS")) return signer.sign(privateKey);
  return signer.sign({
    key: privateKey,
    padding: constants.RSA_PKCS1_PSS_PADDING,
    saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
  });
}
