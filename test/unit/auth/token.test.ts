import { describe, expect, test } from "vitest";
import { startStaticIssuer } from "../../harness/issuer.ts";
import { forFile } from "../../harness/lifetimes.ts";
import {
  claimsOf,
  encodePart,
  type Members,
  mintHmacToken,
  mintToken,
  mintUnsignedToken,
  newTestKey,
  withPart,
} from "../../harness/tokens.ts";
import { bearer, manualTime, patient, refusalOf, startedWorld } from "./world.ts";

const algorithms = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];
const keys = new Map(algorithms.map((algorithm) => [algorithm, newTestKey(algorithm, `key-${algorithm}`)]));
const key = keys.get("ES256") ?? newTestKey("ES256", "key-ES256");
const rsaKey = keys.get("RS256") ?? newTestKey("RS256", "key-RS256");
const strangeKey = newTestKey("ES256", key.kid);
const weakKey = newTestKey("RS256", "key-weak", 1024);
const time = manualTime();
const nowSeconds = time.now() / 1000;

const issuer = await forFile(startStaticIssuer([weakKey, ...keys.values()].map(({ publicJwk }) => publicJwk)));

const claims = (overrides: Members = {}) => claimsOf(issuer.url, time.now(), overrides);
const authenticate = async (token: string) =>
  (await startedWorld(issuer.url, time)).authenticate(bearer(token), patient);

describe("a good token", () => {
  test.each(algorithms)("signed with %s gives the caller", async (algorithm) => {
    const signer = keys.get(algorithm);
    if (signer === undefined) throw new Error("no such key");
    expect(await authenticate(mintToken(signer, claims()))).toEqual({
      tenantId: "tenant-a",
      principalId: "payroll-service",
      subject: "client-1",
      authSource: "bearer_token",
      scopes: ["platform-api.access", "policy.read"],
    });
  });

  test.each([
    ["a b a", ["a", "b"]],
    ["", []],
    [
      ["b", "a", "b"],
      ["b", "a"],
    ],
    [[], []],
  ])("with the scopes %j carries %j", async (scope, scopes) => {
    expect((await authenticate(mintToken(key, claims({ scope })))).scopes).toEqual(scopes);
  });

  test("is accepted although it names its own keys, which are ignored", async () => {
    const header = { jku: `${issuer.url}/elsewhere`, x5u: `${issuer.url}/elsewhere`, jwk: strangeKey.publicJwk };
    expect(await authenticate(mintToken(key, claims(), header))).toHaveProperty("tenantId", "tenant-a");
  });

  test("without kid is accepted if one or several keys of its algorithm are published", async () => {
    expect(await authenticate(mintToken(key, claims(), { kid: undefined }))).toHaveProperty("tenantId");
    expect(await authenticate(mintToken(rsaKey, claims(), { kid: undefined }))).toHaveProperty("tenantId");
    const expired = authenticate(mintToken(rsaKey, claims({ exp: nowSeconds - 31 }), { kid: undefined }));
    expect(await refusalOf(expired)).toHaveProperty("reason", "expired_token");
    const stranger = newTestKey("RS256", "none");
    const strange = authenticate(mintToken(stranger, claims(), { kid: undefined }));
    expect(await refusalOf(strange)).toHaveProperty("reason", "invalid_token");
  });
});

type Minter = () => string;
const publicPem = key.publicKey.export({ format: "pem", type: "spki" });
const publicDer = key.publicKey.export({ format: "der", type: "spki" });

const invalid: readonly [string, Minter][] = [
  ["a JWE's five parts", () => `${mintToken(key, claims())}.a.b`],
  ["header is no JSON", () => withPart(mintToken(key, claims()), 0, encodePart("{"))],
  ["header is a list", () => withPart(mintToken(key, claims()), 0, encodePart([]))],
  ["payload is no JSON", () => mintToken(key, "{")],
  ["payload is a list", () => mintToken(key, [])],
  ["payload is not UTF-8", () => withPart(mintToken(key, claims()), 1, "_w")],
  ["alg None", () => mintUnsignedToken(claims(), { alg: "None" })],
  ["alg missing", () => mintToken(key, claims(), { alg: undefined })],
  ["alg of another key type", () => mintToken(key, claims(), { alg: "RS256" })],
  ["alg outside the list", () => mintToken(key, claims(), { alg: "ES256K" })],
  ["alg a list", () => mintToken(key, claims(), { alg: ["ES256"] })],
  ["HMAC with the public key as PEM", () => mintHmacToken(publicPem, claims(), { kid: key.kid })],
  ["HMAC with the public key as DER", () => mintHmacToken(publicDer, claims(), { kid: key.kid })],
  ["HMAC under an asymmetric name", () => mintHmacToken(publicPem, claims(), { kid: key.kid, alg: "ES256" })],
  ["RSA key of 1024 bits", () => mintToken(weakKey, claims())],
  ["key in jwk", () => mintToken(strangeKey, claims(), { jwk: strangeKey.publicJwk })],
  ["kid a path", () => mintToken(strangeKey, claims(), { kid: "../../dev/null" })],
  ["kid a statement", () => mintToken(strangeKey, claims(), { kid: "x' OR '1'='1" })],
  ["kid a number", () => mintToken(key, claims(), { kid: 1 })],
  ["kid a member of every object", () => mintToken(key, claims(), { kid: "__proto__" })],
  ["crit unknown", () => mintToken(key, claims(), { crit: ["x"], x: 1 })],
  ["payload unencoded", () => mintToken(key, claims(), { crit: ["b64"], b64: false })],
  ["exp beyond every number", () => mintToken(key, JSON.stringify(claims({ exp: "?" })).replace('"?"', "1e999"))],
];

describe("refused with invalid_token:", () => {
  test.each(invalid)("%s", async (_name, mint) => {
    const refusal = await refusalOf(authenticate(mint()));
    expect(refusal).toMatchObject({ reason: "invalid_token", httpStatus: 401 });
    expect(refusal.details.challenge).toContain('error="invalid_token"');
  });

  test("longer than 8 KiB, although valid", async () => {
    const filler = (length: number) => mintToken(key, claims({ filler: "x".repeat(length) }));
    expect(await authenticate(filler(5_500))).toHaveProperty("tenantId");
    expect(await refusalOf(authenticate(filler(7_000)))).toHaveProperty("reason", "invalid_token");
  });
});

test("nothing of a token is in its refusal, or in the cause for the log", async () => {
  const secretish = "s3cr3t-value";
  const token = mintToken(key, claims({ aud: secretish, sub: secretish }), { [secretish]: secretish });
  const { message, details } = await refusalOf(authenticate(token));
  expect(JSON.stringify([message, details])).not.toContain(secretish);
  expect(details.cause).toBe("token aud");
});
