import { describe, expect, test } from "vitest";
import { readBearerToken } from "../../../src/auth/bearer.ts";
import { edgeOf, refusalOf } from "./world.ts";

const read = async (authorization: string | readonly string[]) => readBearerToken(edgeOf({ authorization }), 32);

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
