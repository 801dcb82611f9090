import { describe, expect, test } from "vitest";
import { presentedScheme, readAccessToken } from "../../../src/auth/challenge.ts";
import { inboundOf, refusalOf } from "./world.ts";

const read = async (authorization: string | readonly string[], scheme: "Bearer" | "DPoP" = "Bearer") =>
  readAccessToken(inboundOf({ authorization }), scheme, 32);

describe("the Authorization header", () => {
  test.each([
    ["Bearer abc.def-_~+/==", "abc.def-_~+/=="],
    ["bearer abc", "abc"],
    ["BEARER   abc", "abc"],
    [`Bearer ${"a".repeat(32)}`, "a".repeat(32)],
  ])("%j carries a token", async (value, token) => {
    expect(await read(value)).toBe(token);
  });

  test.each([[[]], [""], ["Basic dXNlcjpwYXNz"], ["DPoP abc"], ["Negotiate"]])(
    "%j carries no bearer credentials",
    async (value) => {
      const refusal = await refusalOf(read(value));
      expect(refusal.reason).toBe("missing_token");
      expect(refusal.details.challenge).toBe('Bearer realm="sdk"');
    },
  );

  test.each([
    [["Bearer abc", "Bearer abc"]],
    [["Bearer abc", ""]],
    ["Bearer"],
    ["Bearer "],
    ["Bearer a b"],
    ["Bearer a, Bearer b"],
    ["Bearer a,b"],
    ["Bearer\tabc"],
    [" Bearer abc"],
    ["Bearer abc "],
    ["Bearer =abc"],
    ["Bearer a=b"],
    ["Bearer aбc"],
    ['Bearer "abc"'],
    ["abc.def.ghi, x"],
    [`Bearer ${"a".repeat(33)}`],
  ])("%j is malformed", async (value) => {
    const refusal = await refusalOf(read(value));
    expect(refusal.reason).toBe("invalid_token");
    expect(refusal.httpStatus).toBe(401);
    expect(refusal.details.challenge).toMatch(
      /^Bearer realm="sdk", error="invalid_token", error_description="[^"\\]+"$/,
    );
  });
});

describe("if the DPoP scheme is required", () => {
  test.each(["DPoP abc", "dpop abc", "DPOP   abc", `DPoP ${"a".repeat(32)}`])("%j carries a token", async (value) => {
    expect(await read(value, "DPoP")).toMatch(/^a/);
  });

  test("a bearer token is refused unread", async () => {
    for (const value of ["Bearer abc", "bearer abc"]) {
      expect(await refusalOf(read(value, "DPoP"))).toHaveProperty("reason", "proof_of_possession_failed");
    }
    expect(await refusalOf(read("Basic abc", "DPoP"))).toHaveProperty("reason", "missing_token");
    expect(await refusalOf(read(`DPoP ${"a".repeat(33)}`, "DPoP"))).toHaveProperty("reason", "invalid_token");
  });
});

test.each([
  ["DPoP abc", "DPoP"],
  ["dpop abc", "DPoP"],
  ["Bearer abc", "Bearer"],
  [[], "Bearer"],
])("%j was sent under %s", (authorization, scheme) => {
  expect(presentedScheme(inboundOf({ authorization }))).toBe(scheme);
});
