import { hash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TokenOptions } from "../../../src/auth/access-tokens.ts";
import { cacheVerifications, type RefusedToken, type Verification } from "../../../src/auth/token-cache.ts";
import type { Caller } from "../../../src/base/caller.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { type StaticIssuer, startStaticIssuer } from "../../harness/issuer.ts";
import { claimsOf, mintToken, newTestKey } from "../../harness/tokens.ts";
import { authenticatorOf, bearer, inboundOf, type ManualTime, manualTime, patient, refusalOf } from "./world.ts";

const minute = 60_000;

/** A cache before a verifier that counts, for tokens that live for the given time. */
function cached(livesMs: number) {
  const time = manualTime();
  const expiresAtMs = time.now() + livesMs;
  const world = {
    ...{ time, revision: 1 as number | undefined, verified: [] as string[], during: () => {}, fails: false },
    refusedBy: undefined as RefusedToken["by"] | undefined,
    attributeRevision: 0,
  };
  const verify = cacheVerifications(
    async (token): Promise<Verification> => {
      world.verified.push(token);
      world.during();
      if (world.fails) throw new Error("not known");
      if (world.refusedBy !== undefined) {
        return { refusal: new ServiceError("invalid_token", "refused"), by: world.refusedBy };
      }
      return { caller: { subject: token } as Caller, binding: "unbound", expiresAtMs };
    },
    {
      clock: time,
      keyRevision: () => world.revision,
      attributeRevision: () => world.attributeRevision,
      clockToleranceSeconds: 30,
    },
  );
  return { world, verify: (token: string) => verify(token, { signal: patient, mayVerify: async () => {} }) };
}

describe("a token is verified again", () => {
  test("not while it is fresh, and each token for itself", async () => {
    const { world, verify } = cached(60 * minute);
    for (const token of ["a", "b", "a", "b"]) expect((await verify(token)).caller.subject).toBe(token);
    expect(world.verified).toEqual(["a", "b"]);
  });

  test.each([
    ["five minutes later", 60 * minute, 5 * minute],
    ["once it expired, tolerance included", minute, minute + 30_000],
    ["once the clock went back", 60 * minute, -1],
  ])("%s", async (_name, livesMs, laterMs) => {
    const { world, verify } = cached(livesMs);
    await verify("a");
    world.time.advance(laterMs < 0 ? 0 : laterMs - 1);
    await verify("a");
    expect(world.verified).toHaveLength(1);
    world.time.advance(laterMs < 0 ? laterMs : 1);
    await verify("a");
    expect(world.verified).toHaveLength(2);
  });

  test("once the keys changed, or are gone", async () => {
    const { world, verify } = cached(60 * minute);
    await verify("a");
    for (const revision of [2, undefined, undefined, 3]) {
      world.revision = revision;
      await verify("a");
    }
    expect(world.verified).toHaveLength(5);
    await verify("a");
    expect(world.verified).toHaveLength(5);
  });

  test("once other attributes are read of callers, also where that changed while it was verified", async () => {
    const { world, verify } = cached(60 * minute);
    await verify("a");
    world.attributeRevision = 1;
    world.during = () => {
      world.attributeRevision = 2;
    };
    await verify("a");
    world.during = () => {};
    await verify("a");
    await verify("a");
    expect(world.verified).toEqual(["a", "a", "a"]);
  });

  test("where the keys changed while it was verified, and another token came in between", async () => {
    const { world, verify } = cached(60 * minute);
    world.during = () => {
      world.during = () => {};
      world.revision = 2;
      void verify("b");
    };
    await verify("a");
    await verify("a");
    expect(world.verified).toEqual(["a", "b", "a"]);
  });

  test("where it could not be told whether it is good", async () => {
    const { world, verify } = cached(60 * minute);
    world.fails = true;
    await expect(verify("a")).rejects.toThrow("not known");
    world.fails = false;
    await verify("a");
    expect(world.verified).toHaveLength(2);
  });

  test("where 10,000 others were seen since", async () => {
    const { world, verify } = cached(60 * minute);
    await verify("first");
    for (let i = 0; i < 9_999; i++) await verify(`token ${i}`);
    await verify("first");
    expect(world.verified).toHaveLength(10_000);
    await verify("one more");
    await verify("token 0");
    expect(world.verified).toHaveLength(10_002);
  });
});

describe.each(["claims", "signature"] as const)("a token that is refused for its %s", (by) => {
  function refusing() {
    const { world, verify } = cached(60 * minute);
    world.refusedBy = by;
    return { world, refused: (token: string) => expect(verify(token)).rejects.toThrow("refused") };
  }

  test("is refused again without another look, each token for itself", async () => {
    const { world, refused } = refusing();
    for (const token of ["a", "b", "a", "b", "a"]) await refused(token);
    expect(world.verified).toEqual(["a", "b"]);
  });

  test.each([
    ["five minutes later", 5 * minute],
    ["once the clock went back", -1],
  ])("is looked at again %s", async (_name, laterMs) => {
    const { world, refused } = refusing();
    await refused("a");
    world.time.advance(laterMs);
    await refused("a");
    expect(world.verified).toHaveLength(2);
  });

  test("is looked at again once the keys changed, or while there are none", async () => {
    const { world, refused } = refusing();
    for (const revision of [1, 2, undefined, undefined, 3]) {
      world.revision = revision;
      await refused("a");
    }
    expect(world.verified).toHaveLength(5);
  });

  test("is looked at again where the keys changed while it was judged", async () => {
    const { world, refused } = refusing();
    world.during = () => {
      world.during = () => {};
      world.revision = 2;
    };
    await refused("a");
    await refused("a");
    expect(world.verified).toHaveLength(2);
  });

  test("is forgotten where 4,096 of its kind were refused since, and not for any number of another kind", async () => {
    const { world, refused } = refusing();
    await refused("first");
    world.refusedBy = by === "claims" ? "signature" : "claims";
    for (let i = 0; i < 5_000; i++) await refused(`of the other kind ${i}`);
    world.refusedBy = by;
    await refused("first");
    expect(world.verified).toHaveLength(5_001);
    for (let i = 0; i < 4_096; i++) await refused(`of the same kind ${i}`);
    await refused("first");
    expect(world.verified).toHaveLength(5_001 + 4_097);
  });
});

describe("behind the authenticator", () => {
  const first = newTestKey("ES256", "first");
  const second = newTestKey("ES256", "second");
  let issuer: StaticIssuer;
  beforeAll(async () => {
    issuer = await startStaticIssuer([first.publicJwk]);
  });
  afterAll(() => issuer.stop());

  /** An authenticator that has its keys: what is verified while they are on their way is not remembered. */
  async function started(time: ManualTime, options: Partial<TokenOptions> = {}) {
    const world = authenticatorOf(issuer.url, time, options);
    const fetched = world.fetched();
    world.start();
    await fetched;
    return world;
  }

  test("a withdrawn key ends its tokens at the next fetch; the same keys again end nothing", async () => {
    const time = manualTime();
    const world = await started(time);
    const exp = time.now() / 1000 + 3600;
    const token = mintToken(first, claimsOf(issuer.url, time.now(), { exp }));
    const caller = await world.authenticate(bearer(token), patient);
    const fetched = world.fetched();
    time.advance(4.9 * minute);
    await fetched;
    // The very same object: it was not derived again.
    expect(await world.authenticate(bearer(token), patient)).toBe(caller);
    const later = mintToken(first, claimsOf(issuer.url, time.now(), { exp }));
    await world.authenticate(bearer(later), patient);
    issuer.keys = [second.publicJwk];
    const again = world.fetched();
    time.advance(4.9 * minute);
    await again;
    expect(await refusalOf(world.authenticate(bearer(later), patient))).toHaveProperty("reason", "invalid_token");
    issuer.keys = [first.publicJwk];
  });

  test("a remembered token that expires is refused as expired", async () => {
    const time = manualTime();
    const world = await started(time);
    const token = mintToken(first, claimsOf(issuer.url, time.now(), { exp: time.now() / 1000 + 10 }));
    await world.authenticate(bearer(token), patient);
    time.advance(39_999);
    await world.authenticate(bearer(token), patient);
    time.advance(1);
    expect(await refusalOf(world.authenticate(bearer(token), patient))).toHaveProperty("reason", "expired_token");
  });

  test("possession is checked on every call, the remembered ones too", async () => {
    const time = manualTime();
    const ingress = { networks: [], certificates: [] };
    const rule = { mode: "mtls", headerName: "x-cert", format: "thumbprint", ingress } as const;
    const world = await started(time, { proofOfPossession: rule });
    const own = Buffer.from("own certificate");
    const cnf = { "x5t#S256": hash("sha256", own, "base64url") };
    const token = mintToken(first, claimsOf(issuer.url, time.now(), { cnf }));
    const over = (certificate: Buffer | undefined) =>
      world.authenticate(
        inboundOf({ authorization: `Bearer ${token}` }, { clientCertificate: () => certificate }),
        patient,
      );
    const caller = await over(own);
    for (const stolen of [Buffer.from("another certificate"), undefined]) {
      expect(await refusalOf(over(stolen))).toHaveProperty("reason", "proof_of_possession_failed");
    }
    expect(await over(own)).toBe(caller);
  });

  const reasonOf = async (call: Promise<unknown>) => (await refusalOf(call)).reason;

  test("what is refused for a moment is good afterwards", async () => {
    const time = manualTime();
    const world = await started(time);
    const call = (token: string) => world.authenticate(bearer(token), patient);
    const early = mintToken(first, claimsOf(issuer.url, time.now(), { nbf: time.now() / 1000 + 31 }));
    const future = mintToken(first, claimsOf(issuer.url, time.now(), { iat: time.now() / 1000 + 31 }));
    const unknown = mintToken(second, claimsOf(issuer.url, time.now()));
    for (const token of [early, future, unknown]) expect(await reasonOf(call(token))).toBe("invalid_token");
    time.advance(1_000);
    for (const token of [early, future]) expect(await call(token)).toHaveProperty("tenantId");
    issuer.answer = (_path, response) => void response.writeHead(500).end();
    expect(await reasonOf(call(unknown))).toBe("issuer_unavailable");
    issuer.answer = undefined;
    issuer.keys = [first.publicJwk, second.publicJwk];
    time.advance(30_000);
    expect(await call(unknown)).toHaveProperty("tenantId");
    issuer.keys = [first.publicJwk];
  });

  test("a forged token does not stand in the way of a key that makes it good", async () => {
    const time = manualTime();
    const world = await started(time);
    const successor = { ...second, kid: first.kid, publicJwk: { ...second.publicJwk, kid: first.kid } };
    const token = mintToken(successor, claimsOf(issuer.url, time.now(), { exp: time.now() / 1000 + 3600 }));
    for (let i = 0; i < 3; i++) {
      expect(await reasonOf(world.authenticate(bearer(token), patient))).toBe("invalid_token");
    }
    issuer.keys = [successor.publicJwk];
    const fetched = world.fetched();
    time.advance(5 * minute);
    await fetched;
    expect(await world.authenticate(bearer(token), patient)).toHaveProperty("tenantId");
    issuer.keys = [first.publicJwk];
  });
});
