/** What an issuer's keys, and what comes with calls before the caller is known, may cost. */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import fc from "fast-check";
import { createLocalJWKSet, type JWK } from "jose";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { candidateKeys, keyProblem } from "../../../src/auth/candidate-keys.ts";
import { signatureAlgorithms } from "../../../src/auth/challenge.ts";
import { issuerEntry, type StaticIssuer, startStaticIssuer } from "../../harness/issuer.ts";
import { forTest } from "../../harness/lifetimes.ts";
import { boundTo, mintProof } from "../../harness/proofs.ts";
import { claimsOf, type Members, mintToken, newTestKey } from "../../harness/tokens.ts";
import {
  authenticatorOf,
  bearer,
  dpopRule,
  inboundOf,
  manualTime,
  mtlsRule,
  patient,
  refusalOf,
  startedWorld,
} from "./world.ts";

const good = newTestKey("ES256", "good");
const rsa = newTestKey("RS256", "rsa");
const stranger = newTestKey("ES256", "stranger");
const strangerRsa = newTestKey("RS256", "stranger");
const time = manualTime();
let issuer: StaticIssuer;

beforeEach(async () => {
  issuer = await forTest(startStaticIssuer([good.publicJwk]));
});
afterEach(() => void vi.restoreAllMocks());

/** Odd, and of just so many bits; its factors are unknown. */
function number(bits: number): string {
  const bytes = randomBytes(bits / 8);
  bytes[0] = (bytes[0] as number) | 0x80;
  bytes[bytes.length - 1] = (bytes.at(-1) as number) | 1;
  return bytes.toString("base64url");
}

const rsaOf = (bits: number, e = "AQAB"): JWK => ({ kty: "RSA", n: number(bits), e });
const claims = (changes: Members = {}) => claimsOf(issuer.url, time.now(), changes);
const targetOf = (accessToken: string) => {
  return { method: "GET", url: "https://api.example/v1/sdk/whoami", accessToken, nowMs: time.now() };
};

const ready = (options?: Parameters<typeof startedWorld>[2]) => startedWorld(issuer.url, time, options);

/** Counts signatures that are checked; each time, before it is, something is done. */
function countChecks(before: (count: number) => void = () => {}): () => number {
  const { subtle } = globalThis.crypto;
  const verify = subtle.verify.bind(subtle);
  let count = 0;
  vi.spyOn(subtle, "verify").mockImplementation((...given) => {
    count += 1;
    before(count);
    return verify(...(given as Parameters<typeof verify>));
  });
  return () => count;
}

describe("a key of the issuer's set that is left out", () => {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { n: _, ...withoutModulus } = rsa.publicJwk;
  test.each<[string, JWK, string]>([
    ["an RSA key of 16,384 bits", rsaOf(16_384), "has 16384 bits"],
    ["an RSA key of 4,104 bits", rsaOf(4_104), "has 4104 bits"],
    ["an RSA key of 1,024 bits", rsaOf(1_024), "has 1024 bits"],
    ["an exponent of 3,072 bits", rsaOf(3_072, number(3_072)), "has an exponent of 3072 bits"],
    ["an exponent of 40 bits", rsaOf(2_048, number(40)), "has an exponent of 40 bits"],
    ["an exponent of 1, with which everybody signs", rsaOf(2_048, "AQ"), "has an exponent that is not an odd number"],
    ["an even exponent", rsaOf(2_048, "Ag"), "has an exponent that is not an odd number"],
    ["no modulus", withoutModulus, "cannot be imported"],
    [
      "a point that is not on its curve",
      { ...stranger.publicJwk, y: stranger.publicJwk.x as string },
      "cannot be imported",
    ],
    ["no point", { kty: "EC", crv: "P-256", x: 1 } as unknown as JWK, "cannot be imported"],
    ["a private key", { ...privateKey.export({ format: "jwk" }), alg: "ES256" } as JWK, "cannot be imported"],
    ["a short Ed25519 key", { kty: "OKP", crv: "Ed25519", x: "AAAA" }, "cannot be imported"],
  ])("%s", async (_name, bad, problem) => {
    const textless = { toString: null, valueOf: null };
    const others = [undefined, textless].map((kid) => ({ ...bad, kid }) as unknown as JWK);
    issuer.keys = [{ ...bad, kid: "bad" }, ...others, good.publicJwk];
    const world = await ready();
    const { issuerReady, remark } = world.status();
    expect(issuerReady).toBe(true);
    expect(remark).toContain(`"bad" ${problem}`);
    for (const kid of ["bad", undefined]) {
      for (const key of [strangerRsa, stranger, newTestKey("EdDSA", "stranger")]) {
        const refusal = await refusalOf(world.authenticate(bearer(mintToken(key, claims(), { kid })), patient));
        expect(refusal.reason).toMatch(/^(invalid_token|issuer_unavailable)$/);
      }
    }
    expect(await world.authenticate(bearer(mintToken(good, claims())), patient)).toHaveProperty("tenantId");
    // Under its id nothing else is looked for: no fetch is spent on it.
    const under = await refusalOf(world.authenticate(bearer(mintToken(stranger, claims(), { kid: "bad" })), patient));
    expect(under.reason).toBe("invalid_token");
  });

  test("does not make the issuer ready by itself, and is reported", async () => {
    issuer.keys = [{ ...rsaOf(1_024), kid: "weak" }];
    expect((await ready()).status()).toEqual({
      issuerReady: false,
      detail: 'the issuer publishes no signature keys; keys of the issuer are left out: "weak" has 1024 bits',
    });
  });

  test("is not reported if it is for another use", async () => {
    const others: JWK[] = [
      { ...rsaOf(1_024), use: "enc" },
      { ...rsaOf(1_024), alg: "RSA-OAEP" },
      { ...stranger.publicJwk, alg: "ECDH-ES" },
      { ...stranger.publicJwk, alg: "ES256", key_ops: ["sign"] },
    ];
    issuer.keys = [...others, good.publicJwk];
    expect((await ready()).status()).toEqual({ issuerReady: true, detail: "1 keys" });
  });
});

/** A key of ours with some members changed, left out or added, as any issuer could publish it. */
const scalars = fc.oneof(
  fc.constant(undefined),
  fc.constant(null),
  fc.string(),
  fc.base64String().map((text) => text.replaceAll("=", "")),
  fc.integer(),
  fc.boolean(),
  fc.array(fc.string(), { maxLength: 2 }),
  fc.constantFrom("RSA", "EC", "OKP", "AKP", "oct", "P-384", "verify", "__proto__", ...signatureAlgorithms),
);
const members = "kty n e crv x y d p alg use kid ext key_ops oth pub priv".split(" ");
const published = fc
  .tuple(
    fc.constantFrom(...["RS256", "ES256", "ES512", "EdDSA"].map((algorithm) => newTestKey(algorithm, "kid").publicJwk)),
    fc.dictionary(fc.constantFrom(...members), scalars, { maxKeys: 3 }),
  )
  .map(([key, changes]): JWK => JSON.parse(JSON.stringify({ ...key, ...changes })));

test("whatever an issuer publishes, kept keys can be looked up at a known cost", async () => {
  let kept = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(published, { minLength: 1, maxLength: 4 }), async (keys) => {
      const fit: JWK[] = [];
      for (const key of keys) if ((await keyProblem(key)) === undefined) fit.push(key);
      kept += fit.length;
      const set = createLocalJWKSet({ keys: fit });
      for (const alg of signatureAlgorithms) {
        for (const header of [{ alg }, { alg, kid: "kid" }]) {
          for (const { type, algorithm } of await candidateKeys(set, header)) {
            expect(type).toBe("public");
            const { modulusLength = 2_048 } = algorithm as { readonly modulusLength?: number };
            expect(modulusLength).toBeLessThanOrEqual(4_096);
          }
        }
      }
    }),
    { numRuns: 500 },
  );
  expect(kept).toBeGreaterThan(100);
});

describe("a stranger's token", () => {
  const many = Array.from({ length: 500 }, (_, i): JWK => {
    const { kid: __, ...key } = newTestKey("ES256", `key-${i}`).publicJwk;
    return key;
  });

  test("costs at most eight signatures, whatever the issuer publishes, and the set has at most 64 keys", async () => {
    issuer.keys = many;
    const world = await ready();
    expect(world.status().remark).toContain("436 more");
    const checks = countChecks();
    const call = world.authenticate(bearer(mintToken(stranger, claims(), { kid: undefined })), patient);
    expect((await refusalOf(call)).reason).toBe("invalid_token");
    expect(checks()).toBe(8);
  });

  test("costs eight also if all keys have one id", async () => {
    issuer.keys = many.slice(0, 40).map((key) => ({ ...key, kid: "stranger" }));
    const world = await ready();
    const checks = countChecks();
    await refusalOf(world.authenticate(bearer(mintToken(stranger, claims())), patient));
    expect(checks()).toBe(8);
  });

  test("costs nothing more once its caller has left", async () => {
    issuer.keys = many;
    const world = await ready();
    const leaving = new AbortController();
    const checks = countChecks((count) => count === 2 && leaving.abort(new Error("left")));
    const call = world.authenticate(bearer(mintToken(stranger, claims(), { kid: undefined })), leaving.signal);
    await expect(call).rejects.toThrow("left");
    expect(checks()).toBe(2);
  });

  test("waits behind others of its issuer, and delays no token of another issuer", async () => {
    issuer.keys = many;
    const other = await forTest(startStaticIssuer([good.publicJwk]));
    const issuers = [issuer, other].map(({ url, port }) =>
      issuerEntry(url, { tenants: { kind: "prefix", prefix: port === other.port ? "other-" : "tenant-" } }),
    );
    const world = authenticatorOf(issuer.url, time, { issuers });
    const both = Promise.all([world.fetched(), world.fetched()]);
    world.start();
    await both;
    const checks = countChecks();
    const junk = Array.from({ length: 200 }, (_, i) =>
      refusalOf(
        world.authenticate(bearer(mintToken(stranger, claims({ jti: `junk-${i}` }), { kid: undefined })), patient),
      ),
    );
    await expect.poll(checks).toBeGreaterThan(0);
    const before = checks();
    const ours = mintToken(good, claimsOf(other.url, time.now(), { tenant_id: "other-a" }));
    expect(await world.authenticate(bearer(ours), patient)).toHaveProperty("tenantId", "other-a");
    // Those that were being checked, its own, and at most as many that had their turn meanwhile.
    expect(checks() - before).toBeLessThan(16);
    await Promise.all(junk);
  });

  test.each<[string, Members, Parameters<typeof inboundOf>[0]]>([
    ["without a proof", {}, {}],
    ["with what is no proof", {}, { dpop: "a.b.c" }],
    ["with a proof of another call", { htu: "https://api.example/v1/sdk/other" }, {}],
    ["with a proof of another token", { ath: "x" }, {}],
    ["with an old proof", { iat: 1 }, {}],
    ["with a proof by another key", { by: "stranger" }, {}],
  ])("%s costs no signature", async (_name, { by, ...changes }, headers) => {
    const world = await ready({ proofOfPossession: dpopRule() });
    const token = mintToken({ ...stranger, kid: "good" }, claims({ cnf: await boundTo(rsa) }));
    const dpop = mintProof(by === undefined ? rsa : stranger, targetOf(token), changes);
    const hasProof = Object.keys(changes).length > 0 || by !== undefined;
    const checks = countChecks();
    const inbound = inboundOf({ authorization: `DPoP ${token}`, ...(hasProof && { dpop }), ...headers });
    expect((await refusalOf(world.authenticate(inbound, patient))).reason).toBe("proof_of_possession_failed");
    expect(checks()).toBe(0);
  });

  test("costs no signature without the certificate that it names, and an ignored one is reported", async () => {
    const rule = mtlsRule();
    const world = await ready({ proofOfPossession: rule });
    const checks = countChecks();
    const thumbprint = Buffer.alloc(32).toString("base64url");
    const token = mintToken({ ...stranger, kid: "good" }, claims({ cnf: { "x5t#S256": thumbprint } }));
    const inbound = inboundOf({ authorization: `Bearer ${token}`, [rule.headerName]: thumbprint });
    expect((await refusalOf(world.authenticate(inbound, patient))).reason).toBe("proof_of_possession_failed");
    expect(checks()).toBe(0);
    expect(world.events.filter(({ type }) => type === "forwarded_certificate_ignored")).toHaveLength(1);
  });
});

test("a proof with an expensive key is refused before any computation with it", async () => {
  const world = await ready({ proofOfPossession: dpopRule() });
  const jwk = rsaOf(2_048, number(2_048));
  const bound = { ...strangerRsa, publicKey: { export: () => jwk } } as unknown as typeof strangerRsa;
  const token = mintToken(good, claims({ cnf: await boundTo(bound) }));
  const dpop = mintProof(bound, targetOf(token));
  const checks = countChecks();
  const inbound = inboundOf({ authorization: `DPoP ${token}`, dpop });
  expect(await refusalOf(world.authenticate(inbound, patient))).toMatchObject({
    details: { cause: "has an exponent of 2048 bits" },
  });
  expect(checks()).toBe(0);
});
