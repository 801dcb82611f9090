/** Several issuers, each with tenants of its own: nothing of one counts for, or is felt by, another. */
import { beforeEach, describe, expect, test } from "vitest";
import { parseTenantId } from "../../../src/base/ids.ts";
import type { IssuerEntry, TenantRule } from "../../../src/base/issuers.ts";
import { issuerEntry, type StaticIssuer, startStaticIssuer } from "../../harness/issuer.ts";
import { forTest } from "../../harness/lifetimes.ts";
import { claimsOf, type Members, mintHmacToken, mintToken, newTestKey } from "../../harness/tokens.ts";
import { must } from "../domain/world.ts";
import { authenticatorOf, bearer, type ManualTime, manualTime, patient, refusalOf, type World } from "./world.ts";

const idOf = (tenant: string) => must(parseTenantId(tenant));
const fixed = (tenant: string): TenantRule => ({ kind: "fixed", tenantId: idOf(tenant) });
const listed = (...tenants: string[]): TenantRule => ({ kind: "list", tenantIds: new Set(tenants.map(idOf)) });
const prefix = (text: string): TenantRule => ({ kind: "prefix", prefix: text });

// One key id for both, so that only the issuer tells them apart.
const keyA = newTestKey("ES256", "key-1");
const keyB = newTestKey("RS256", "key-1");
let a: StaticIssuer;
let b: StaticIssuer;
let time: ManualTime;
let world: World;

const entriesOf = (changes: { a?: Partial<IssuerEntry>; b?: Partial<IssuerEntry> } = {}) => [
  issuerEntry(a.url, { tenants: listed("acme", "acme-test"), ...changes.a }),
  issuerEntry(b.url, { tenants: prefix("umbrella"), ...changes.b }),
];
const tokenOf = (issuer: StaticIssuer, claims: Members = {}, header: Members = {}) =>
  mintToken(
    issuer === a ? keyA : keyB,
    claimsOf(issuer.url, time.now(), { tenant_id: issuer === a ? "acme" : "umbrella-1", ...claims }),
    header,
  );
const tenantOf = async (token: string) => (await world.authenticate(bearer(token), patient)).tenantId;
const reasonOf = async (token: string) => (await refusalOf(world.authenticate(bearer(token), patient))).reason;
const overreaches = () => world.events.filter(({ type }) => type === "issuer_overreached");

beforeEach(async () => {
  a = await forTest(startStaticIssuer([keyA.publicJwk]));
  b = await forTest(startStaticIssuer([keyB.publicJwk]));
  time = manualTime(Date.now());
  world = authenticatorOf(a.url, time, { issuers: entriesOf() });
});

async function started(): Promise<void> {
  world.start();
  await expect.poll(() => world.status()).toEqual({ issuerReady: true, detail: "the keys of 2 issuers" });
}

describe("a token", () => {
  beforeEach(started);

  test("is for the tenants of its issuer, signed with its issuer's key of that id", async () => {
    expect(await tenantOf(tokenOf(a))).toBe("acme");
    expect(await tenantOf(tokenOf(a, { tenant_id: "acme-test" }))).toBe("acme-test");
    expect(await tenantOf(tokenOf(b))).toBe("umbrella-1");
    expect(await tenantOf(tokenOf(b, { tenant_id: "umbrella" }))).toBe("umbrella");
  });

  test("of another issuer's tenant is refused, cached or not, and the issuer is reported once", async () => {
    const token = tokenOf(a, { tenant_id: "umbrella-1" });
    for (let call = 0; call < 3; call++) {
      const refusal = await refusalOf(world.authenticate(bearer(token), patient));
      expect([refusal.reason, refusal.message]).toEqual([
        "invalid_token",
        "the token issuer may not speak for this tenant",
      ]);
    }
    expect(overreaches()).toEqual([{ type: "issuer_overreached", issuer: a.url, tenantId: "umbrella-1" }]);
  });

  test.each([
    ["the other's in another case", () => b, "UMBRELLA-1"],
    ["one that begins like one of a list", () => a, "acme-test-2"],
    ["one that ends like one of a list", () => a, "x-acme"],
    ["one that is the beginning of a pattern", () => b, "umbrell"],
  ] as const)("of a tenant that nearly matches its issuer's is refused: %s", async (_name, issuer, tenant) => {
    expect(await reasonOf(tokenOf(issuer(), { tenant_id: tenant }))).toBe("invalid_token");
    expect(overreaches()).toHaveLength(1);
  });

  test("that a stranger forged for another's tenant is not attributed to the issuer, and no key is fetched", async () => {
    const forged = mintToken(keyB, claimsOf(a.url, time.now(), { tenant_id: "umbrella-1" }));
    expect(await reasonOf(forged)).toBe("invalid_token");
    const before = a.fetches.keys;
    expect(await reasonOf(tokenOf(a, { tenant_id: "umbrella-1" }, { kid: "invented" }))).toBe("invalid_token");
    expect(a.fetches.keys).toBe(before);
    expect(overreaches()).toEqual([]);
  });

  test.each<[string, () => string]>([
    ["with the other's name, and its own key of the same id", () => mintToken(keyA, claimsOf(b.url, time.now()))],
    ["the other way round", () => mintToken(keyB, claimsOf(a.url, time.now(), { tenant_id: "acme" }))],
    ["with several tenants", () => tokenOf(a, { tenant_id: ["acme", "umbrella-1"] })],
    ["with an issuer with a slash more", () => tokenOf(a, { iss: `${a.url}/` })],
    ["with an issuer with a default port", () => tokenOf(a, { iss: "http://127.0.0.1:80/realms/test" })],
    ["with an issuer with a space", () => tokenOf(a, { iss: ` ${a.url}` })],
    ["with an object that reads as its issuer", () => tokenOf(a, { iss: { toString: a.url } })],
    ["with a prototype's name as issuer", () => tokenOf(a, { iss: "__proto__" })],
    [
      "with HMAC and the other's public key",
      () =>
        mintHmacToken(
          keyB.publicKey.export({ type: "spki", format: "pem" }).toString(),
          claimsOf(a.url, time.now(), { tenant_id: "acme" }),
          { kid: "key-1" },
        ),
    ],
    ["with the other's algorithm", () => tokenOf(a, {}, { alg: "RS256" })],
  ])("%s is refused", async (_name, token) => {
    expect(await reasonOf(token())).toBe("invalid_token");
    expect(overreaches()).toEqual([]);
  });
});

test("each issuer has its own audience, claims and kinds of tokens", async () => {
  const claims = { tenant: "org", principal: "azp", subject: "email", scope: "scp" };
  const entries = entriesOf({ a: { audience: "platform", claims }, b: { requireAtJwt: true } });
  world = authenticatorOf(a.url, time, { issuers: entries });
  await started();
  const own = { aud: "platform", tenant_id: undefined, org: "acme", azp: "batch", email: "a@b", scp: "x" };
  const caller = await world.authenticate(bearer(tokenOf(a, own)), patient);
  expect(caller).toMatchObject({ tenantId: "acme", principalId: "batch", subject: "a@b", scopes: ["x"] });
  expect(await reasonOf(tokenOf(a))).toBe("invalid_token");
  expect(await tenantOf(tokenOf(b))).toBe("umbrella-1");
  expect(await reasonOf(tokenOf(b, {}, { typ: "JWT" }))).toBe("invalid_token");
  expect(await reasonOf(tokenOf(b, { aud: "platform" }))).toBe("invalid_token");
});

test("the tokens of an issuer with one tenant may omit it, and may name no other", async () => {
  world = authenticatorOf(a.url, time, { issuers: entriesOf({ a: { tenants: fixed("acme") } }) });
  await started();
  expect(await tenantOf(tokenOf(a, { tenant_id: undefined }))).toBe("acme");
  expect(await tenantOf(tokenOf(a))).toBe("acme");
  expect(await reasonOf(tokenOf(a, { tenant_id: "umbrella-1" }))).toBe("invalid_token");
  for (const odd of ["", 5, null, ["acme"]])
    expect(await reasonOf(tokenOf(a, { tenant_id: odd }))).toBe("invalid_token");
  expect(overreaches()).toHaveLength(1);
});

test("invented key ids of one issuer use up its own fetches only", async () => {
  await started();
  const invented = () => tokenOf(a, {}, { kid: `invented-${Math.random()}` });
  for (let call = 0; call < 2; call++) expect(await reasonOf(invented())).toBe("invalid_token");
  expect(await reasonOf(invented())).toBe("issuer_unavailable");
  const next = newTestKey("ES256", "key-2");
  b.keys = [keyB.publicJwk, next.publicJwk];
  const token = mintToken(next, claimsOf(b.url, time.now(), { tenant_id: "umbrella-1" }));
  expect(await tenantOf(token)).toBe("umbrella-1");
});

describe("a reloaded issuers file", () => {
  beforeEach(started);

  test("refuses the tokens of a removed issuer at once, cached or not", async () => {
    const known = tokenOf(b);
    expect(await tenantOf(known)).toBe("umbrella-1");
    world.replaceIssuers(entriesOf().slice(0, 1));
    expect(await reasonOf(known)).toBe("invalid_token");
    expect(await reasonOf(tokenOf(b, { jti: "another" }))).toBe("invalid_token");
    expect(await tenantOf(tokenOf(a))).toBe("acme");
    const asked = b.fetches.discovery;
    time.advance(3_600_000);
    await expect.poll(() => a.fetches.discovery).toBeGreaterThan(1);
    expect(b.fetches.discovery).toBe(asked);
  });

  test("serves new tenants at once", async () => {
    const known = tokenOf(a);
    expect(await tenantOf(known)).toBe("acme");
    world.replaceIssuers(
      entriesOf({ a: { tenants: listed("acme-test") }, b: { tenants: listed("umbrella-1", "acme") } }),
    );
    expect(await reasonOf(known)).toBe("invalid_token");
    expect(await tenantOf(tokenOf(b, { tenant_id: "acme" }))).toBe("acme");
  });

  test("accepts no call that waited for the keys of a removed issuer", async () => {
    const next = newTestKey("ES256", "key-2");
    b.keys = [next.publicJwk];
    const release = b.hold();
    const token = mintToken(next, claimsOf(b.url, time.now(), { tenant_id: "umbrella-1" }));
    const before = b.fetches.discovery;
    const waiting = refusalOf(world.authenticate(bearer(token), patient));
    await expect.poll(() => b.fetches.discovery).toBe(before + 1);
    world.replaceIssuers(entriesOf().slice(0, 1));
    release();
    expect(["invalid_token", "issuer_unavailable"]).toContain((await waiting).reason);
  });
});
