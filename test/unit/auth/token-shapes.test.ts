/** Tokens of every shape, made at random: a table of its own says which are let in, and what a refusal may cost. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import { draws } from "../../harness/draws.ts";
import { startStaticIssuer } from "../../harness/issuer.ts";
import { forFile } from "../../harness/lifetimes.ts";
import {
  claimsOf,
  type Members,
  mintToken,
  mintUnsignedToken,
  newTestKey,
  type TestKey,
} from "../../harness/tokens.ts";
import { bearer, type ManualTime, manualTime, patient, startedWorld, type World } from "./world.ts";

const audience = "api://svc-platform-api";
const key = newTestKey("ES256", "key-1");
const strangeKey = newTestKey("ES256", key.kid);
const otherKey = newTestKey("EdDSA", "key-2");
const issuer = await forFile(startStaticIssuer([key.publicJwk]));

const started = (time: ManualTime) => startedWorld(issuer.url, time);

/** Whether the token is let in, else why not. Any other failure than a refusal fails the test. */
function outcomeOf(world: World, token: string): Promise<string> {
  return world.authenticate(bearer(token), patient).then(
    () => "let in",
    (error: unknown) => {
      if (error instanceof ServiceError) return error.reason;
      throw error;
    },
  );
}

/** Values of a member that are right, and that are wrong. Seconds count from now. */
interface Choices {
  readonly right: readonly unknown[];
  readonly wrong: readonly unknown[];
}

const text: Choices = {
  right: ["a", "payroll-service", "Ω"],
  wrong: [undefined, "", "a\n", "a\0b", "\u001b[2J", "a\u007f", "a\u0085b", "a".repeat(257), 7, null, ["a"]],
};
const absent = (...wrong: unknown[]): Choices => ({ right: [undefined], wrong: [...wrong, null, ""] });

function choicesFor(nowSeconds: number): { readonly claims: Record<string, Choices>; readonly header: Choices } {
  const begins = {
    right: [undefined, 0, nowSeconds - 0.5, nowSeconds, nowSeconds + 30],
    wrong: [nowSeconds + 31, 1e12, "0", null, {}, [nowSeconds]],
  };
  return {
    claims: {
      iss: {
        right: [issuer.url],
        wrong: [
          ...[undefined, `${issuer.url}/`, `${issuer.url}x`, issuer.url.slice(0, -1), issuer.url.toUpperCase(), ""],
          ...[
            issuer.url.replace("127.0.0.1", "localhost"),
            issuer.url.replace("http:", "https:"),
            [issuer.url],
            null,
            7,
          ],
        ],
      },
      aud: {
        right: [audience, [audience], ["x", audience]],
        wrong: [undefined, "x", [], ["x"], [[audience]], {}, null],
      },
      exp: { right: [nowSeconds - 29, nowSeconds + 1, nowSeconds + 0.5, 1e12], wrong: [undefined, null, "9e9", {}] },
      nbf: begins,
      iat: begins,
      sub: text,
      principal_id: text,
      tenant_id: {
        right: ["a", "tenant-a", "A.b:c_1"],
        wrong: [undefined, "", "../a", "a b", "a\n", "a".repeat(129), 7, null, ["a"]],
      },
      scope: { right: ["", "a", "a b", [], ["a"]], wrong: [undefined, " ", "a  b", 'a"', [1], [["a"]], null, {}] },
      typ: {
        right: [undefined, "Bearer", "bearer", "DPoP"],
        wrong: ["ID", "Refresh", "Logout", "", null, 7, ["Bearer"]],
      },
      token_use: { right: [undefined, "access"], wrong: ["id", null, ["access"]] },
      nonce: absent("n"),
      at_hash: absent("h"),
      c_hash: absent("h"),
      s_hash: absent("h"),
      events: absent({}),
      status: {
        right: [undefined, "employed"],
        wrong: [{ status_list: { idx: 0, uri: `${issuer.url}/lists/1` } }, { identifier_list: { id: "1" } }, {}, []],
      },
      // Ignored.
      jti: { right: [undefined, "a", 7], wrong: [] },
      azp: { right: [undefined, "client", null], wrong: [] },
      sid: { right: [undefined, "s"], wrong: [] },
      acr: { right: [undefined, "1"], wrong: [] },
    },
    header: {
      right: ["at+jwt", "application/at+jwt", "AT+JWT", "JWT", undefined],
      wrong: ["id+jwt", "logout+jwt", "dpop+jwt", "", 7, null, ["at+jwt"]],
    },
  };
}

/** Mostly right, so that some tokens are right in all. */
const picked = ({ right, wrong }: Choices) => {
  const good = fc.record({ value: fc.constantFrom(...right), right: fc.constant(true) });
  if (wrong.length === 0) return good;
  const bad = fc.record({ value: fc.constantFrom(...wrong), right: fc.constant(false) });
  return fc.oneof({ weight: 19, arbitrary: good }, { weight: 1, arbitrary: bad });
};

const signers = {
  issuer: (claims: Members, header: Members) => mintToken(key, claims, header),
  forger: (claims: Members, header: Members) => mintToken(strangeKey, claims, header),
  inventor: (claims: Members, header: Members) => mintToken({ ...strangeKey, kid: "invented" }, claims, header),
  nobody: (claims: Members, header: Members) => mintUnsignedToken(claims, { kid: key.kid, ...header }),
} as const;

test("only a token that is valid in every claim and signed by the issuer is accepted, and nothing is fetched for others", async () => {
  const time = manualTime();
  const { claims, header } = choicesFor(time.now() / 1000);
  const tokens = fc.record({
    claims: fc.record(Object.fromEntries(Object.entries(claims).map(([name, choices]) => [name, picked(choices)]))),
    typ: picked(header),
    signer: fc.constantFrom("issuer", "issuer", ...(Object.keys(signers) as (keyof typeof signers)[])),
    expired: fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.nat(1e9) }),
  });
  type Token = typeof tokens extends fc.Arbitrary<infer Value> ? Value : never;
  /** Right in all but one member, which chance seldom draws: with each of its values. */
  const rightInAll = Object.entries(claims).map(
    ([name, { right }]) => [name, { value: right[0], right: true }] as const,
  );
  const plain: Token = {
    claims: Object.fromEntries(rightInAll),
    typ: { value: "at+jwt", right: true },
    signer: "issuer",
    expired: undefined,
  };
  const each = (choices: Choices, made: (picked: { value: unknown; right: boolean }) => Token): [Token][] => [
    ...choices.right.map((value): [Token] => [made({ value, right: true })]),
    ...choices.wrong.flatMap((value) => {
      const token = made({ value, right: false });
      return [[token], [{ ...token, signer: "inventor" }]] as [Token][];
    }),
  ];
  const examples = [
    ...each(header, (typ) => ({ ...plain, typ })),
    ...Object.entries(claims).flatMap(([name, choices]) =>
      each(choices, (picked) => ({ ...plain, claims: { ...plain.claims, [name]: picked } })),
    ),
    [{ ...plain, expired: 0 }] as [Token],
  ];
  let world = await started(time);
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(tokens, async ({ claims: picks, typ, signer, expired }) => {
      const allRight = typ.right && Object.values(picks).every(({ right }) => right);
      const members = Object.fromEntries(Object.entries(picks).map(([name, { value }]) => [name, value]));
      const exp = expired === undefined || !picks.exp?.right ? {} : { exp: time.now() / 1000 - 30 - expired };
      const token = signers[signer]({ ...members, ...exp }, { typ: typ.value });
      const fetchesBefore = issuer.fetches.keys;
      const outcome = await outcomeOf(world, token);
      // Whatever it is, it is the same from memory.
      if (signer !== "inventor") expect(await outcomeOf(world, token)).toBe(outcome);
      const fetched = issuer.fetches.keys > fetchesBefore;
      if (!allRight) expect(["invalid_token", "expired_token"]).toContain(outcome);
      else if (signer === "nobody") expect(outcome).toBe("invalid_token");
      else if ("exp" in exp) expect(outcome).toBe("expired_token");
      else expect(outcome).toBe(signer === "issuer" ? "let in" : "invalid_token");
      expect(fetched).toBe(allRight && signer === "inventor" && !("exp" in exp));
      // Every key that is asked for finds the budget full.
      if (fetched) world = await started(time);
      seen.add(`${signer} ${outcome} ${fetched}`);
    }),
    { numRuns: examples.length + draws(400, 1_500), examples },
  );
  // The generator reaches what it is for.
  expect([...seen]).toEqual(
    expect.arrayContaining(["issuer let in false", "issuer expired_token false", "inventor invalid_token true"]),
  );
}, 60_000);

test("a token with changed, lost or doubled bytes is never accepted unless the issuer signed it", async () => {
  const time = manualTime();
  const world = await started(time);
  const good = mintToken(key, claimsOf(issuer.url, time.now()));
  const signed = good.slice(0, good.lastIndexOf("."));
  const edit = fc.record({
    at: fc.nat(good.length),
    length: fc.integer({ min: 0, max: 4 }),
    put: fc.oneof(fc.constantFrom("", ".", "..", "=", "e30", "bnVsbA", "__8"), fc.base64String({ maxLength: 8 })),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(edit, { minLength: 1, maxLength: 3 }), async (edits) => {
      let token = good;
      for (const { at, length, put } of edits) token = token.slice(0, at) + put + token.slice(at + length);
      const outcome = await outcomeOf(world, token);
      expect(await outcomeOf(world, token)).toBe(outcome);
      if (!token.startsWith(`${signed}.`)) expect(outcome).not.toBe("let in");
      expect(["let in", "invalid_token", "missing_token", "expired_token", "issuer_unavailable"]).toContain(outcome);
    }),
    { numRuns: draws(250, 1_500) },
  );
  expect(await outcomeOf(world, good)).toBe("let in");
}, 60_000);

describe("an authenticator with a cache", () => {
  const minute = 60_000;
  /** From one fetch of the keys to the next, as the world's constant chance has it. */
  const refreshMs = 4.75 * minute;
  /** Published under the first one's name, in its place. */
  const successor = { ...otherKey, kid: key.kid, publicJwk: { ...otherKey.publicJwk, kid: key.kid } };
  const sets: readonly (readonly TestKey[])[] = [[key], [otherKey], [key, otherKey], [successor]];

  function pool(startMs: number): readonly string[] {
    const seconds = startMs / 1000;
    const by = (signer: TestKey, claims: Members, header: Members = {}) =>
      mintToken(signer, claimsOf(issuer.url, startMs, { exp: seconds + 100_000, ...claims }), header);
    return [
      by(key, {}),
      by(otherKey, {}),
      by(successor, {}),
      by(strangeKey, {}),
      by(key, { exp: seconds + 100 }),
      by(key, { nbf: seconds + 120 }),
      by(key, { iat: seconds + 120 }),
      by(key, { aud: "another" }),
      by(key, { nonce: "n" }),
      by(key, {}, { kid: undefined }),
      "no.token.at-all",
    ];
  }

  test("answers as one without, whatever was presented, published or passed before", async () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ present: fc.nat(10) }) },
      { weight: 1, arbitrary: fc.record({ passMs: fc.constantFrom(1_000, 29_000, 4 * minute) }) },
      { weight: 1, arbitrary: fc.record({ publish: fc.constantFrom(...sets) }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
        issuer.keys = [key.publicJwk];
        const time = manualTime();
        const tokens = pool(time.now());
        const world = await started(time);
        let lastFetchMs = time.now();
        let fetches = world.events.length;
        /** Lets time pass, and the keys be fetched where it is time for that. */
        const pass = async (ms: number) => {
          const fetched = time.now() + ms >= lastFetchMs + refreshMs ? world.fetched() : undefined;
          time.advance(ms);
          await fetched;
        };
        for (const taken of steps) {
          if ("present" in taken) {
            const token = tokens[taken.present] ?? "";
            const outcome = await outcomeOf(world, token);
            const fresh = await started(time);
            const expected = await outcomeOf(fresh, token);
            fresh.close();
            // An unpublished key: it is fetched, as long as the budget lasts.
            if (outcome !== "issuer_unavailable") expect(outcome).toBe(expected);
            else expect(expected).toBe("invalid_token");
          } else if ("passMs" in taken) await pass(taken.passMs);
          else {
            issuer.keys = taken.publish.map(({ publicJwk }) => publicJwk);
            await pass(refreshMs);
          }
          if (world.events.length > fetches) lastFetchMs = time.now();
          fetches = world.events.length;
        }
        world.close();
      }),
      {
        numRuns: 30,
        examples: [
          // A withdrawn key, one that makes a forged token good, a life that ends, and one that begins.
          [[{ present: 0 }, { publish: [otherKey] }, { present: 0 }]],
          [[{ present: 2 }, { publish: [successor] }, { present: 2 }]],
          [[{ present: 4 }, { passMs: 4 * minute }, { present: 4 }]],
          [[{ present: 5 }, { present: 6 }, { passMs: 4 * minute }, { present: 5 }, { present: 6 }]],
        ],
      },
    );
    issuer.keys = [key.publicJwk];
  }, 60_000);
});
