import { describe, expect, test } from "vitest";
import { cacheVerifications, type Verification } from "../../../src/auth/token-cache.ts";
import type { Caller } from "../../../src/base/caller.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { manualTime, patient } from "./world.ts";

const minute = 60_000;

/** A cache before a verifier that counts, for tokens that live for an hour. */
function cached() {
  const time = manualTime();
  const expiresAtMs = time.now() + 60 * minute;
  const world = {
    ...{ time, revision: 1 as number | undefined, verified: [] as string[], during: () => {}, fails: false },
    refuses: false,
    attributeRevision: 0,
  };
  const verify = cacheVerifications(
    async (token): Promise<Verification> => {
      world.verified.push(token);
      world.during();
      if (world.fails) throw new Error("not known");
      if (world.refuses) return { refusal: new ServiceError("invalid_token", "refused") };
      return { caller: { subject: token } as Caller, binding: "unbound", expiresAtMs };
    },
    { clock: time, keyRevision: () => world.revision, attributeRevision: () => world.attributeRevision },
  );
  return { world, verify: (token: string) => verify(token, { signal: patient, mayVerify: async () => {} }) };
}

describe.each([
  ["accepted", false],
  ["refused for its signature", true],
])("a token that was %s is verified again", (_what, refuses) => {
  function setup() {
    const { world, verify } = cached();
    world.refuses = refuses;
    const ask = (token: string) =>
      refuses
        ? expect(verify(token)).rejects.toThrow("refused")
        : expect(verify(token)).resolves.toHaveProperty("caller.subject", token);
    return { world, ask };
  }

  test("only after its time, each token for itself", async () => {
    const { world, ask } = setup();
    for (const token of ["a", "b", "a", "b", "a"]) await ask(token);
    expect(world.verified).toEqual(["a", "b"]);
  });

  test.each([
    ["five minutes later", 5 * minute],
    ["once the clock went back", -1],
  ])("%s", async (_name, laterMs) => {
    const { world, ask } = setup();
    await ask("a");
    world.time.advance(Math.max(laterMs - 1, 0));
    await ask("a");
    expect(world.verified).toHaveLength(1);
    world.time.advance(Math.min(laterMs, 1));
    await ask("a");
    expect(world.verified).toHaveLength(2);
  });

  test("if the keys changed during its verification, and another token came in between", async () => {
    const { world, ask } = setup();
    let other: Promise<void> | undefined;
    world.during = () => {
      world.during = () => {};
      world.revision = 2;
      other = ask("b");
    };
    await ask("a");
    await other;
    await ask("a");
    expect(world.verified).toEqual(["a", "b", "a"]);
  });
});

describe("a cached token is verified again", () => {
  test("once other attributes are read of callers, even if that changed during its verification", async () => {
    const { world, verify } = cached();
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

  test("if its verification was not decided", async () => {
    const { world, verify } = cached();
    world.fails = true;
    await expect(verify("a")).rejects.toThrow("not known");
    world.fails = false;
    await verify("a");
    expect(world.verified).toHaveLength(2);
  });

  test("if 10,000 other tokens were seen since", async () => {
    const { world, verify } = cached();
    await verify("first");
    for (let i = 0; i < 9_999; i++) await verify(`token ${i}`);
    await verify("first");
    expect(world.verified).toHaveLength(10_000);
    await verify("one more");
    await verify("token 0");
    expect(world.verified).toHaveLength(10_002);
  });
});

test("a refused token is verified again if 4,096 were refused since, whatever was accepted", async () => {
  const { world, verify } = cached();
  const refused = async (token: string) => {
    world.refuses = true;
    await expect(verify(token)).rejects.toThrow("refused");
    world.refuses = false;
  };
  await refused("first");
  for (let i = 0; i < 5_000; i++) await verify(`verified ${i}`);
  await refused("first");
  expect(world.verified).toHaveLength(5_001);
  for (let i = 0; i < 4_096; i++) await refused(`refused ${i}`);
  await refused("first");
  expect(world.verified).toHaveLength(5_001 + 4_097);
});
