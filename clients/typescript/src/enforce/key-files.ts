/** Key files: one JWK (RFC 7517) with `kid`, which is the key's reference. */
import { createPublicKey, generateKeyPairSync, randomBytes, type webcrypto } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { EnforcementError, failureOfSystem } from "./errors.ts";
import { createFile } from "./files.ts";
import { type KeyProvider, keySize, localKey, requireReference } from "./keys.ts";
import { localSigningKey, type SigningKey } from "./signing-keys.ts";
import { localTdfKey, type TdfKey } from "./tdf-keys.ts";

/** Creates a key file, readable by its owner only, with a wrapping key of type `oct`. The path must not exist. */
export async function createKeyFile(path: string, reference = newReference()): Promise<void> {
  await create(path, { kty: "oct", alg: "A256GCM", kid: reference, k: randomBytes(keySize).toString("base64url") });
}

/** The same with a signing key: Ed25519, of type `OKP` (RFC 8037), or ECDSA with P-256, of type `EC`. */
export async function createSigningKeyFile(
  path: string,
  reference = newReference(),
  algorithm: "EdDSA" | "ES256" = "EdDSA",
): Promise<void> {
  const { privateKey } =
    algorithm === "ES256" ? generateKeyPairSync("ec", { namedCurve: "P-256" }) : generateKeyPairSync("ed25519");
  await create(path, { ...privateKey.export({ format: "jwk" }), alg: algorithm, kid: reference });
}

/** The same with a TDF key: RSA of 2,048 bits, or ECDH with P-256. The file has the address of its KAS as `kas_url`. */
export async function createTdfKeyFile(
  path: string,
  url: string,
  reference = newReference(),
  algorithm: "RSA-OAEP" | "ECDH-ES" = "RSA-OAEP",
): Promise<void> {
  const { privateKey } =
    algorithm === "RSA-OAEP"
      ? generateKeyPairSync("rsa", { modulusLength: 2048 })
      : generateKeyPairSync("ec", { namedCurve: "P-256" });
  const jwk = { ...privateKey.export({ format: "jwk" }), alg: algorithm, kid: reference, kas_url: url };
  localTdfKey(reference, jwk, { url });
  await create(path, jwk);
}

/**
 * Creates a key file with the public half of a signing key, for verifiers, or of a TDF key, for writers; as a JWK, or in
 * PEM for other programs. Rejects with `invalid`, or `exists`.
 */
export async function createPublicKeyFile(
  signingKeyPath: string,
  path: string,
  format: "jwk" | "pem" = "jwk",
): Promise<void> {
  const jwk = await readJwk(signingKeyPath);
  if ("wrap" in keyOf(jwk, signingKeyPath))
    throw new EnforcementError("invalid", `${signingKeyPath} has no public half`);
  const members = ["kty", "crv", "x", "y", "n", "e", "alg", "kid", "kas_url"];
  const others = Object.fromEntries(Object.entries(jwk).filter(([name]) => members.includes(name)));
  if (format === "jwk") return create(path, { ...others, kid: String(jwk.kid) });
  const pem = createPublicKey({ key: others as webcrypto.JsonWebKey, format: "jwk" }).export({
    type: "spki",
    format: "pem",
  });
  await createFile(path, Buffer.from(pem));
}

/** Reads a key file. Rejects with `invalid` if it is malformed, or others than the owner may read a secret. */
export async function keyFile(path: string): Promise<KeyProvider | SigningKey | TdfKey> {
  return keyOf(await readJwk(path), path);
}

const newReference = () => `local-${randomBytes(8).toString("hex")}`;

async function create(path: string, jwk: Jwk & { readonly kid: string }): Promise<void> {
  requireReference(jwk.kid);
  await createFile(path, Buffer.from(`${JSON.stringify(jwk)}\n`));
}

function keyOf(jwk: Jwk, path: string): KeyProvider | SigningKey | TdfKey {
  const { kty, kid, k, alg, kas_url: url } = jwk;
  if (typeof kid === "string" && kid !== "") {
    requireReference(kid);
    if (kty === "OKP" || (kty === "EC" && alg === "ES256")) return localSigningKey(kid, jwk);
    if (typeof url === "string" && (alg === "RSA-OAEP" || alg === "ECDH-ES")) return localTdfKey(kid, jwk, { url });
    const key = typeof k === "string" ? Buffer.from(k, "base64url") : Buffer.alloc(0);
    if (kty === "oct" && key.length === keySize) return localKey(kid, key);
  }
  throw new EnforcementError(
    "invalid",
    `${path} is no key file: a JWK with kid, of type oct with 32 bytes, one that signs, or one of a KAS`,
  );
}

type Jwk = Readonly<Record<string, unknown>>;

/** Reads a JWK; unless it is public, the file must be its owner's alone. */
async function readJwk(path: string): Promise<Jwk> {
  let file: FileHandle;
  try {
    // Opening a FIFO would block until a writer opens it.
    file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (cause) {
    throw new EnforcementError(failureOfSystem(cause), `${path} cannot be read`, { cause });
  }
  try {
    const stat = await file.stat();
    if (!stat.isFile() || stat.size > 65_536) throw new EnforcementError("invalid", `${path} is no key file`);
    const value: unknown = JSON.parse(await file.readFile("utf8"));
    if (typeof value !== "object" || value === null) throw new SyntaxError("no object");
    const jwk = value as Jwk;
    const isPublic = ["OKP", "EC", "RSA"].includes(String(jwk.kty)) && jwk.d === undefined;
    if (!isPublic && process.platform !== "win32" && (stat.mode & 0o077) !== 0)
      throw new EnforcementError("invalid", `${path} is readable by others than its owner: make it 0600`);
    return jwk;
  } catch (cause) {
    if (cause instanceof EnforcementError) throw cause;
    throw new EnforcementError("invalid", `${path} is no key file: it is not JSON`);
  } finally {
    await file.close();
  }
}
