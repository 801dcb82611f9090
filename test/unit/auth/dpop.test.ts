import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createDpopNonces, type DpopRule } from "../../../src/auth/possession.ts";
import type { ReplayStore } from "../../../src/auth/replay-store.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import type { InboundRequest } from "../../../src/base/inbound-request.ts";
import { startStaticIssuer } from "../../harness/issuer.ts";
import { forFile } from "../../harness/lifetimes.ts";
import { boundTo, memoryReplayStore, mintProof, publicJwkOf } from "../../harness/proofs.ts";
import {
  claimsOf,
  encodePart,
  type Members,
  mintHmacToken,
  mintToken,
  mintUnsignedToken,
  newTestKey,
  type TestKey,
  withPart,
} from "../../harness/tokens.ts";
import { dpopRule, inboundOf, manualTime, patient, refusalOf, startedWorld } from "./world.ts";

const issuerKey = newTestKey("ES256", "issuer");
const callerKey = newTestKey("ES256", "caller");
const strangeKey = newTestKey("ES256", "stranger");
const time = manualTime();
const nowSeconds = time.now() / 1000;
const publicUrl = "https://api.example";
const whoami = "/v1/sdk/whoami";

const issuer = await forFile(startStaticIssuer([issuerKey.publicJwk]));
const token = await tokenOf(callerKey);
const target = { method: "GET", url: publicUrl + whoami, accessToken: token, nowMs: time.now() };

async function tokenOf(key: TestKey, claims: Members = {}): Promise<string> {
  return mintToken(issuerKey, claimsOf(issuer.url, time.now(), { cnf: await boundTo(key), ...claims }));
}

/** The call that the proof is for, unless told otherwise. */
function callOf(
  dpop: string | readonly string[],
  inbound: Partial<InboundRequest> = {},
  accessToken = token,
): InboundRequest {
  return inboundOf({ authorization: `DPoP ${accessToken}`, dpop }, { url: whoami, ...inbound });
}

const good = (claims: Members = {}, header: Members = {}) => mintProof(callerKey, target, claims, header);
async function authenticate(inbound: InboundRequest, rule?: Partial<DpopRule>) {
  const world = await startedWorld(issuer.url, time, { proofOfPossession: dpopRule(rule) });
  return world.authenticate(inbound, patient);
}

describe("a new proof by the bound key is accepted", () => {
  test.each(["RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"])("signed with %s", async (algorithm) => {
    const key = newTestKey(algorithm, "caller");
    const accessToken = await tokenOf(key);
    const proof = mintProof(key, { ...target, accessToken });
    expect(await authenticate(callOf(proof, {}, accessToken))).toMatchObject({ tenantId: "tenant-a" });
  });

  test.each<[string, Members]>([
    ["query and fragment of htu do not count", { htu: `https://api.example${whoami}?a=b#c` }],
    ["scheme and host in any case, the default port named", { htu: `HTTPS://API.example:443${whoami}` }],
    ["dot segments", { htu: "https://api.example/v1/./x/../sdk/whoami" }],
    ["as old as it may be", { iat: nowSeconds - 60 }],
    ["as far ahead as it may be", { iat: nowSeconds + 30 }],
    ["a nonce that was not asked for", { nonce: "x" }],
    ["claims of the caller's own", { extra: { a: 1 } }],
  ])("%s", async (_name, claims) => {
    expect(await authenticate(callOf(good(claims)))).toHaveProperty("tenantId");
  });

  test("the call's own query does not count, and a path below the public URL does", async () => {
    const edge = { url: `${whoami}?message=1` };
    expect(await authenticate(callOf(good(), edge))).toHaveProperty("tenantId");
    const below = good({ htu: `https://api.example/base${whoami}` });
    expect(await authenticate(callOf(below), { publicUrl: "https://api.example/base" })).toHaveProperty("tenantId");
  });

  test("its use is noted under the tenant until no replica accepts it any more", async () => {
    const replayStore = memoryReplayStore();
    await authenticate(callOf(good({ iat: nowSeconds - 5 })), { replayStore });
    expect(replayStore.uses).toEqual([
      {
        tenantId: "tenant-a",
        proof: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
        expiresAtMs: (nowSeconds - 5 + 60 + 300) * 1000,
      },
    ]);
  });
});

const privateJwk = () => callerKey.privateKey.export({ format: "jwk" });
const symmetricJwk = { kty: "oct", k: Buffer.from("secret").toString("base64url") };

const wrongProofs: readonly [string, () => string][] = [
  ["is no JWT", () => "abc"],
  ["are two, joined", () => `${good()}, ${good()}`],
  ["typ JWT", () => good({}, { typ: "JWT" })],
  ["typ at+jwt", () => good({}, { typ: "at+jwt" })],
  ["typ in capitals", () => good({}, { typ: "DPOP+JWT" })],
  ["typ a media type in full", () => good({}, { typ: "application/dpop+jwt" })],
  ["typ missing", () => good({}, { typ: undefined })],
  ["alg none", () => mintUnsignedToken({ htm: "GET" }, { typ: "dpop+jwt", jwk: publicJwkOf(callerKey) })],
  ["HMAC with the public key", () => hmacProof()],
  ["alg outside the list", () => good({}, { alg: "ES256K" })],
  ["key missing", () => good({}, { jwk: undefined })],
  ["key no object", () => good({}, { jwk: "x" })],
  ["key an empty object", () => good({}, { jwk: {} })],
  ["key private", () => good({}, { jwk: privateJwk() })],
  ["key for encryption", () => good({}, { jwk: { ...publicJwkOf(callerKey), use: "enc" } })],
  [
    "signature by another key than it carries",
    () => mintProof(strangeKey, target, {}, { jwk: publicJwkOf(callerKey) }),
  ],
  ["payload exchanged", () => withPart(good(), 1, encodePart({ htm: "GET" }))],
  ["crit unknown", () => good({}, { crit: ["x"], x: 1 })],
  ["htm another method", () => good({ htm: "POST" })],
  ["htm in small letters", () => good({ htm: "get" })],
  ["htm missing", () => good({ htm: undefined })],
  ["htu another path", () => good({ htu: `${publicUrl}/v1/sdk/evidence` })],
  ["htu with a slash more", () => good({ htu: `${publicUrl}${whoami}/` })],
  ["htu another host", () => good({ htu: `https://api.example.org${whoami}` })],
  ["htu another port", () => good({ htu: `https://api.example:8443${whoami}` })],
  ["htu over http", () => good({ htu: `http://api.example${whoami}` })],
  ["htu with user information", () => good({ htu: `https://a@api.example${whoami}` })],
  ["htu a path", () => good({ htu: whoami })],
  ["htu no URL", () => good({ htu: "https://" })],
  ["htu missing", () => good({ htu: undefined })],
  ["htu a list", () => good({ htu: [publicUrl + whoami] })],
  ["ath of another token", () => mintProof(callerKey, { ...target, accessToken: "another" })],
  ["ath missing", () => good({ ath: undefined })],
  ["jti missing", () => good({ jti: undefined })],
  ["jti empty", () => good({ jti: "" })],
  ["jti a number", () => good({ jti: 1 })],
  ["jti too long", () => good({ jti: "a".repeat(257) })],
  ["jti with a zero", () => good({ jti: "a\0" })],
  ["iat missing", () => good({ iat: undefined })],
  ["iat text", () => good({ iat: String(nowSeconds) })],
  ["iat a second too old", () => good({ iat: nowSeconds - 61 })],
  ["iat a second too far ahead", () => good({ iat: nowSeconds + 31 })],
  ["exp passed", () => good({ exp: nowSeconds - 31 })],
  ["nonce no text", () => good({ nonce: 7 })],
  ["longer than 4 KiB", () => good({ filler: "x".repeat(4096) })],
];

function hmacProof(): string {
  const secret = callerKey.publicKey.export({ format: "pem", type: "spki" });
  return mintHmacToken(secret, { htm: "GET" }, { typ: "dpop+jwt", jwk: publicJwkOf(callerKey) });
}

async function failureOf(inbound: InboundRequest, rule: Partial<DpopRule> = {}) {
  const replayStore = memoryReplayStore();
  const refusal = await refusalOf(authenticate(inbound, { replayStore, ...rule }));
  expect(refusal).toMatchObject({ reason: "proof_of_possession_failed", httpStatus: 401 });
  // A refused caller leaves nothing behind.
  expect(replayStore.uses).toEqual([]);
  return refusal.details.challenge ?? "";
}

describe("a call is refused if its proof", () => {
  test.each(wrongProofs)("%s", async (_name, mint) => {
    expect(await failureOf(callOf(mint()))).toMatch(
      /^DPoP realm="sdk", error="invalid_dpop_proof", error_description="[^"\\]+", algs="RS256 [A-Za-z0-9 ]+"$/,
    );
  });

  test.each<[string, () => string | string[]]>([
    ["is missing", () => []],
    ["is empty", () => ""],
    ["is there twice", () => [good(), good()]],
    ["is there once and empty", () => [good(), ""]],
  ])("%s", async (_name, dpop) => {
    expect(await failureOf(callOf(dpop()))).toContain('error="invalid_dpop_proof"');
  });

  test("is by another key than the token's", async () => {
    expect(await failureOf(callOf(mintProof(strangeKey, target)))).toContain('error="invalid_token"');
    expect(await failureOf(callOf(good({}, { jwk: symmetricJwk })))).toContain('error="invalid_token"');
  });

  test("was made for another call", async () => {
    for (const edge of [{ method: "POST" }, { method: "HEAD" }, { url: "/v1/sdk/evidence" }, { url: "//x" }]) {
      expect(await failureOf(callOf(good(), edge))).toContain("is for another");
    }
    expect(await failureOf(callOf(good(), { url: publicUrl + whoami }))).toContain("is for another URL");
    const joined = good({ htu: `${publicUrl}.example.org${whoami}` });
    expect(await failureOf(callOf(joined, { url: `.example.org${whoami}` }))).toContain("is for another URL");
  });
});

describe("a used proof", () => {
  test("of one key does not block the same id of another key", async () => {
    const replayStore = memoryReplayStore();
    const accessToken = await tokenOf(strangeKey);
    const other = mintProof(strangeKey, { ...target, accessToken }, { jti: "the same" });
    await authenticate(callOf(good({ jti: "the same" })), { replayStore });
    expect(await authenticate(callOf(other, {}, accessToken), { replayStore })).toBeDefined();
  });

  test("cannot be recognized while the store is down, and then no call is accepted", async () => {
    const replayStore: ReplayStore = {
      firstUse: () => Promise.reject(new ServiceError("store_unavailable", "the store is not available")),
    };
    const refusal = await refusalOf(authenticate(callOf(good()), { replayStore }));
    expect(refusal).toMatchObject({ reason: "store_unavailable", httpStatus: 503 });
    expect(refusal.details.challenge).toBeUndefined();
  });
});

test("the token of a DPoP call is challenged for the configured scheme, whatever is wrong with it", async () => {
  const expired = await tokenOf(callerKey, { exp: nowSeconds - 100 });
  for (const [authorization, reason] of [
    [`DPoP ${expired}`, "expired_token"],
    ["DPoP abc", "invalid_token"],
    ["Basic abc", "missing_token"],
  ] as const) {
    const refusal = await refusalOf(authenticate(inboundOf({ authorization, dpop: good() })));
    expect(refusal.reason).toBe(reason);
    expect(refusal.details.challenge).toMatch(/^DPoP realm="sdk",.* algs="/);
  }
});

test("an open stream continues although its token is verified again after its proof is too old", async () => {
  const later = manualTime(time.now());
  const proofOfPossession = { mode: "dpop", publicUrl, replayStore: memoryReplayStore(), nonces: undefined } as const;
  const world = await startedWorld(issuer.url, later, { proofOfPossession });
  const accessToken = await tokenOf(callerKey, { exp: nowSeconds + 3_600 });
  const opening = callOf(mintProof(callerKey, { ...target, accessToken }), {}, accessToken);
  const caller = await world.authenticate(opening, patient);
  // Longer than verified tokens are cached.
  later.advance(6 * 60_000);
  expect(await world.authenticateStill(opening, patient)).toEqual(caller);
});

describe("without a public URL", () => {
  const at = (url: string) => mintProof(callerKey, { ...target, url: url + whoami });
  const to = (dpop: string, host: string | string[], encrypted?: boolean, name = "host") =>
    inboundOf(
      { authorization: `DPoP ${token}`, dpop, [name]: host },
      { url: whoami, ...(encrypted !== undefined && { encrypted }) },
    );
  const rule = { publicUrl: undefined };

  test("the request's own URL counts on loopback", async () => {
    expect(await authenticate(to(at("http://127.0.0.1:8080"), "127.0.0.1:8080"), rule)).toBeDefined();
    expect(await authenticate(to(at("https://localhost"), "localhost", true), rule)).toBeDefined();
    expect(await authenticate(to(at("http://[::1]:80"), "[::1]", false, ":authority"), rule)).toBeDefined();
  });

  test.each<[string, () => InboundRequest]>([
    ["another host, however the request names it", () => to(at("http://api.example"), "api.example")],
    ["another scheme", () => to(at("https://localhost"), "localhost")],
    ["two hosts", () => to(at("http://localhost"), ["localhost", "localhost"])],
    ["no host", () => to(at("http://localhost"), [])],
    ["user information", () => to(at("http://localhost"), "a@localhost")],
  ])("the request's own URL does not count %s", async (_name, inbound) => {
    expect(await failureOf(inbound(), rule)).toContain("is for another URL");
  });
});

describe("nonces", () => {
  const secret = "a secret of thirty-two characters";
  const period = 5 * 60_000;

  test("are valid for their period and the next, equal on every replica, and cannot be forged", () => {
    const clock = manualTime(period * 1000);
    const nonces = createDpopNonces(() => secret, clock);
    const ahead = createDpopNonces(() => secret, manualTime(period * 1001));
    const nonce = nonces.current();
    expect(createDpopNonces(() => secret, clock).current()).toBe(nonce);
    expect(nonces.accepts(ahead.current())).toBe(true);
    const guessed = createHmac("sha256", "").update(`dpop-nonce ${1000}`).digest("base64url");
    for (const made of ["", "x", guessed, nonce.toLowerCase(), `${nonce}=`]) expect(nonces.accepts(made)).toBe(false);
    expect(createDpopNonces(() => `${secret}.`, clock).accepts(nonce)).toBe(false);
    clock.advance(2 * period - 1);
    expect(nonces.accepts(nonce)).toBe(true);
    clock.advance(1);
    expect(nonces.accepts(nonce)).toBe(false);
  });
});
