import type { JWTPayload } from "jose";
import { describe, expect, test } from "vitest";
import { callerFromHeaders, identityHeaderNames } from "../../../src/auth/authenticator.ts";
import * as reading from "../../../src/auth/claims.ts";
import type { AttributeDeclarations, AttributeType, DeclaredAttributes } from "../../../src/base/caller.ts";
import { inboundOf, networksOf, refusalOf } from "./world.ts";

const declared = (current: AttributeDeclarations): DeclaredAttributes => ({ current, revision: 0 });
const one = (type: AttributeType, required = false, claim = ["it"]) => declared({ it: { type, claim, required } });

const claimedAttributes = (of: DeclaredAttributes) => (token: JWTPayload) =>
  reading.claimedAttributes(of)(token).attributes;
const headerAttributes = (...given: Parameters<typeof reading.headerAttributes>) =>
  reading.headerAttributes(...given).attributes;

/** As a token's payload is read: `__proto__` is a member like others. */
const payload = (json: string) => JSON.parse(json) as JWTPayload;
const long = "a".repeat(1_025);
const groups = (count: number) => JSON.stringify(Array.from({ length: count }, (_, index) => `group-${index}`));

const values: readonly (readonly [type: AttributeType, json: string, value: unknown])[] = [
  ["text", '"a"', "a"],
  ["text", '""', ""],
  ["text", JSON.stringify(long.slice(1)), long.slice(1)],
  ["text", '"😀 \\n"', "😀 \n"],
  ["set_of_text", "[]", []],
  ["set_of_text", '["b", "a", "b"]', ["a", "b"]],
  ["set_of_text", groups(1_000), JSON.parse(groups(1_000)).sort()],
  ["whole_number", "0", 0],
  ["whole_number", "-7", -7],
  ["whole_number", "3.0", 3],
  ["whole_number", "9007199254740991", 2 ** 53 - 1],
  ["yes_no", "true", true],
  ["yes_no", "false", false],
];
const others: readonly (readonly [type: AttributeType, json: string])[] = [
  ...["null", "1", "true", "{}", '["a"]', JSON.stringify(long), '"\\ud800"', '"a\\u0000"'].map(
    (json) => ["text", json] as const,
  ),
  ...[
    "null",
    '"a"',
    '"a b"',
    "{}",
    "[1]",
    "[null]",
    '[["a"]]',
    `["${long}"]`,
    '["\\udfff"]',
    groups(1_001),
    groups(10_000),
  ].map((json) => ["set_of_text", json] as const),
  ["set_of_text", JSON.stringify(Array.from({ length: 100 }, (_, index) => `${index}`.padEnd(700, "x")))],
  ...["null", '"1"', "1.5", "1e300", "1e999", "9007199254740993", "[1]", "true"].map(
    (json) => ["whole_number", json] as const,
  ),
  ...["null", '"true"', "0", "1", "[]", "{}"].map((json) => ["yes_no", json] as const),
];

describe("a claim", () => {
  test.each(values)("as %s: %s", (type, json, value) => {
    const read = claimedAttributes(one(type, true));
    expect(read(payload(`{"it":${json}}`))).toEqual({ it: value });
  });

  test.each(others)("is no %s: %.60s", async (type, json) => {
    const token = payload(`{"it":${json}}`);
    expect(claimedAttributes(one(type))(token)).toEqual({});
    const refusal = await refusalOf((async () => claimedAttributes(one(type, true))(token))());
    expect(refusal).toMatchObject({
      reason: "invalid_token",
      httpStatus: 401,
      message: "the access token carries no valid attribute it",
    });
    expect(refusal.details.challenge).toContain('error_description="the access token carries no valid attribute it"');
  });

  test.each([
    ["members within each other", ["realm_access", "roles"], '{"realm_access":{"roles":["a"]}}', ["a"]],
    ["a name with dots", ["https://x.example/claim"], '{"https://x.example/claim":["a"]}', ["a"]],
    ["a claim called __proto__", ["__proto__"], '{"__proto__":["a"]}', ["a"]],
    ["members of __proto__", ["__proto__", "roles"], '{"__proto__":{"roles":["a"]}}', ["a"]],
    ["what objects inherit", ["__proto__", "roles"], '{"roles":["a"]}', undefined],
    ["the constructor", ["constructor", "name"], "{}", undefined],
    ["a member of a list", ["roles", "0"], '{"roles":[["a"]]}', undefined],
    ["the length of a list", ["roles", "length"], '{"roles":[]}', undefined],
    ["a member of text", ["roles", "0"], '{"roles":"a"}', undefined],
    ["a member of null", ["roles", "a"], '{"roles":null}', undefined],
    ["a name that the token joins with a dot", ["a", "b"], '{"a.b":["a"]}', undefined],
  ])("is looked up as %s", (_name, claim, json, value) => {
    const read = claimedAttributes(one("set_of_text", false, claim));
    expect(read(payload(json))).toEqual(value === undefined ? {} : { it: value });
  });

  test("is not read if nothing is declared", () => {
    expect(claimedAttributes(declared({}))(payload('{"it":1}'))).toBeUndefined();
  });
});

describe("a header", () => {
  const names = { it: "remote-it" };
  const read = (type: AttributeType, value: string | readonly string[], required = false) =>
    headerAttributes(inboundOf({ "remote-it": value }), { declared: one(type, required), names });

  test.each([
    ["text", "a", "a"],
    ["text", "Ward 7", "Ward 7"],
    ["text", "50%25 caf%C3%A9%2C", "50% café,"],
    ["set_of_text", "", []],
    ["set_of_text", "nurse doctor nurse", ["doctor", "nurse"]],
    ["set_of_text", "ward%207 b", ["b", "ward 7"]],
    ["whole_number", "-12", -12],
    ["whole_number", "0", 0],
    ["yes_no", "true", true],
    ["yes_no", "false", false],
  ] as const)("as %s: %j", (type, text, value) => {
    expect(read(type, text, true)).toEqual({ it: value });
  });

  test.each([
    ["text", ""],
    ["text", "a  b"],
    ["text", "%"],
    ["text", "%ff"],
    ["text", "%00"],
    ["text", "caf\u00e9"],
    ["text", long],
    ["set_of_text", " a"],
    ["set_of_text", "a %zz"],
    ["set_of_text", Array.from({ length: 1_001 }, (_, index) => index).join(" ")],
    ["whole_number", ""],
    ["whole_number", "-0"],
    ["whole_number", "01"],
    ["whole_number", "1.0"],
    ["whole_number", "+1"],
    ["whole_number", "9007199254740993"],
    ["yes_no", "True"],
    ["yes_no", "1"],
  ] as const)("is no %s: %.40j", async (type, text) => {
    expect(read(type, text)).toEqual({});
    const refusal = await refusalOf((async () => read(type, text, true))());
    expect(refusal).toMatchObject({ reason: "invalid_token", message: "no valid header for the attribute it" });
  });

  test("that is missing, or not configured, is absent; a required one refuses the call", async () => {
    expect(read("text", [])).toEqual({});
    const unnamed = { declared: one("text", true), names: {} };
    const inbound = inboundOf({ it: "a", "remote-it": "a", constructor: "a" });
    expect(await refusalOf((async () => headerAttributes(inbound, unnamed))())).toHaveProperty(
      "reason",
      "invalid_token",
    );
    expect(headerAttributes(inbound, { declared: one("text"), names: {} })).toEqual({});
  });

  test.each([[["a", "a"]], [["", "a"]], [["a, a"]], [["a,"]]])(
    "sent twice is refused, required or not: %j",
    async (given) => {
      const refusal = await refusalOf((async () => read("text", given))());
      expect(refusal).toMatchObject({ reason: "invalid_token", message: "more than one header for the attribute it" });
    },
  );

  const rule = {
    names: identityHeaderNames("x-svc-"),
    attributes: { declared: one("whole_number", true), names },
    ingress: { networks: networksOf("127.0.0.1"), certificates: [] },
  };
  const identity = {
    ...{ "x-svc-tenant-id": "tenant-a", "x-svc-user-id": "u", "x-svc-subject": "s", "x-svc-scopes": "" },
    "remote-it": "3",
  };
  const through = (headers: Record<string, string>, remoteAddress = "127.0.0.1") =>
    (async () => callerFromHeaders(inboundOf(headers, { remoteAddress }), rule, () => {}))();

  test("counts beside the identity of a trusted ingress only, never alone or from others", async () => {
    expect(await through(identity)).toMatchObject({ authSource: "trusted_headers", attributes: { it: 3 } });
    expect(await refusalOf(through({ "remote-it": "3" }))).toHaveProperty("reason", "missing_token");
    expect(await refusalOf(through(identity, "192.0.2.7"))).toHaveProperty("reason", "missing_token");
  });

  test("is refused as a trailer", async () => {
    expect(await refusalOf(through({ ...identity, trailer: "Remote-It" }))).toHaveProperty("reason", "invalid_token");
  });
});
