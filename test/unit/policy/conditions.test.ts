/** Why a policy does not apply: condition by condition, as Cedar itself says. */
import type { Expr } from "@cedar-policy/cedar-wasm/nodejs";
import { expect, test } from "vitest";
import { expressionText, neededFor } from "../../../src/policy/evaluate/conditions.ts";
import { ask, engineOf, openFiles, parsedPolicy, permit } from "./harness.ts";
import { conditions } from "./pool.ts";

function expressionOf(condition: string): Expr {
  return parsedPolicy(permit("x", condition)).conditions[0]?.body as Expr;
}

test.each(conditions)("Cedar's own spelling gives the same: %s", (condition) => {
  const expression = expressionOf(condition);
  expect(expressionOf(expressionText(expression))).toEqual(expression);
});

test.each([
  ['principal.scopes.contains("doctor")', 'principal.scopes to contain "doctor"'],
  ['!principal.scopes.contains("doctor")', 'principal.scopes not to contain "doctor"'],
  ['["a", "b"].contains(context.claimed.resource.kind)', 'context.claimed.resource.kind to be one of "a", "b"'],
  ['principal.scopes.containsAny(["a"])', 'principal.scopes to contain any of ["a"]'],
  ['context.claimed.resource.kind == "a"', 'context.claimed.resource.kind to be "a"'],
  ["context.claimed has purpose", "context.claimed.purpose to be present"],
  ["!(context.claimed has workload.component)", "context.claimed.workload.component not to be present"],
  ['context.claimed.attributes.hasTag("r")', 'context.claimed.attributes to have the tag "r"'],
  ['principal in Principal::"t/p"', 'principal to be in Principal::"t/p"'],
  ['principal.subject like "a*"', 'principal.subject like "a*"'],
  ["context.claimed.content_digest_present", "context.claimed.content_digest_present"],
  ["1 < 2 || 2 < 3", "(1 < 2) || (2 < 3)"],
])("%s needs %s", (condition, words) => {
  expect(neededFor(expressionOf(condition))).toBe(words);
});

test("a number beyond JSON is compared as written, in a policy that is shown whole", async () => {
  const size = "context.claimed.content_size_bytes";
  const policy = `forbid (principal, action, resource)
    when { context.claimed has content_size_bytes && ${size} + 9007199254740991 > 9007199254740993 };`;
  expect(await unmet(policy, ask("access", { content_size_bytes: 2 }))).toEqual([
    [`@id("x") ${policy}`, "fails", { content_size_bytes: 2 }],
  ]);
  expect(await unmet(policy, ask("access", { content_size_bytes: 3 }))).toEqual([]);
});

async function unmet(policy: string, query = ask("access")) {
  const engine = await engineOf({ ...openFiles, "default/all.cedar": `@id("x") ${policy}` });
  return engine
    .explain(query)
    .layers[1]?.policies[0]?.unmet.map(({ condition, state, inputs }) => [condition, state, inputs]);
}

test("every unmet condition is listed with what it read, and conditions that were not evaluated", async () => {
  const policy = `permit (principal == Principal::"tenant-a/other", action, resource)
    when { context.claimed.labels.contains("a") && context.claimed has purpose && context.claimed.purpose == "b" }
    unless { principal.scopes.contains("c") || context.claimed.resource.kind == "record" };`;
  expect(await unmet(policy, ask("access", { labels: ["a"] }))).toEqual([
    [
      'principal == Principal::"tenant-a/other"',
      "fails",
      { "caller.principal_id": "writer", "caller.tenant_id": "tenant-a" },
    ],
    ["context.claimed has purpose", "fails", { purpose: null }],
    ['context.claimed.purpose == "b"', "unknown", { purpose: null }],
    ['!(context.claimed.resource.kind == "record")', "fails", { "resource.kind": "record" }],
  ]);
});
