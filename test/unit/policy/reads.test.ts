import { expect, test } from "vitest";
import { inputsRead } from "../../../src/policy/check/reads.ts";
import { programOf } from "../../../src/policy/evaluate/program.ts";
import { inputCatalogue } from "../../../src/policy/model/inputs.ts";
import { parsedPolicy, permit } from "./harness.ts";

const catalogue = inputCatalogue({});
const { names: allInputNames } = catalogue;
const isRegistered = (name: string) => name.startsWith("registered");
const identity = ["caller.principal_id", "caller.tenant_id"];
const workload = ["workload.application", "workload.component", "workload.environment"];

const table: readonly (readonly [condition: string, names: readonly string[]])[] = [
  ['action == Action::"protect" || resource == Resource::"claimed"', []],
  ['principal.scopes.contains("a")', ["caller.scopes"]],
  ["principal is Principal", identity],
  ['context.claimed has purpose && context.claimed["purpose"] like "a*"', ["purpose"]],
  ["context.claimed.workload == { application: context.claimed.resource.kind }", ["resource.kind", ...workload]],
  [
    'context.claimed.attributes.hasTag("a") && context.claimed.attributes.hasTag(principal.subject)',
    ["attributes", "caller.subject"],
  ],
  ['decimal("1.0").lessThan(decimal("2.0")) && ip("::1").isLoopback()', []],
  ['context has registered && context.registered.labels_ever.contains("a")', ["registered", "registered.labels_ever"]],
  [
    'context has registered && context.registered.attributes.hasTag("owner")',
    ["registered", "registered.attributes.owner"],
  ],
  ["context has registered && context.registered == context.registered", allInputNames.filter(isRegistered)],
  // What cannot be told is everything.
  ["(if true then context.claimed else context.claimed).content_digest_present", allInputNames],
  ['Principal::"t/a".scopes.contains("a")', allInputNames],
  ["context.claimed.future", allInputNames],
];

test.each(table)("%s", (condition, names) => {
  expect(inputsRead(programOf(parsedPolicy(permit("x", condition))), catalogue)).toEqual([...names].sort());
});

test("an unknown operator counts as reading everything", () => {
  const all = { op: "All" } as const;
  const body = { quantum: { left: { Var: "principal" } } } as never;
  const tree = {
    effect: "permit",
    principal: all,
    action: all,
    resource: all,
    conditions: [{ kind: "when", body }],
  } as const;
  expect(inputsRead(programOf({ ...tree, conditions: [...tree.conditions] }), catalogue)).toEqual(
    [...allInputNames].sort(),
  );
});

test("a principal in the scope is read", () => {
  const program = programOf(parsedPolicy('permit (principal == Principal::"t/a", action, resource);'));
  expect(inputsRead(program, catalogue)).toEqual(identity);
});
