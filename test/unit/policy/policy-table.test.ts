/** Policies as threads hand them over. */
import { expect, test } from "vitest";
import type { CheckedPolicy } from "../../../src/policy/check/check-policy.ts";
import { PolicyTable } from "../../../src/policy/check/policy-table.ts";

const shared = {
  effect: "permit",
  actions: new Set(["access"] as const),
  unconditional: false,
  countsOnBehalfOf: false,
  reads: ["purpose"],
  namedActions: ["access"],
  entities: { named: [] } as unknown as CheckedPolicy["entities"],
} as const;

function programWith(text: string): string {
  const conditions = [["==", ["path", "context", "purpose"], ["value", text]]];
  return JSON.stringify({ forbids: false, conditions, isKnown: true });
}

function policy(number: number, of: Partial<CheckedPolicy> = {}): CheckedPolicy {
  const guidance = { scalars: {}, lists: { warnings: [`warning ${number} 🦆`] } } as CheckedPolicy["guidance"];
  const text = `permit (principal, action, resource); // ${number} \u{1F986} \uD800`;
  const program = programWith("any");
  return { ...shared, program, id: `policy-${number}`, file: "a.cedar", line: number, text, guidance, ...of };
}

test("policies are given as they were taken, in another thread too", () => {
  const policies = [
    policy(1),
    policy(2, { description: "the second", file: "b.cedar" }),
    policy(3, { program: programWith("é") }),
  ];
  const columns = structuredClone(PolicyTable.of(policies).columns);
  expect([...new PolicyTable(columns)]).toEqual(policies);
  expect([...PolicyTable.of([])]).toEqual([]);
});

test("guidance of each policy's own makes no more combinations of what policies have alike", () => {
  const scopes = { scalars: {}, lists: { required_scopes: ["policy.read"] } } as CheckedPolicy["guidance"];
  const table = PolicyTable.of([policy(1), policy(2), policy(3), policy(4, { guidance: scopes })]);
  expect(table.traits.map(({ requiresScopes }) => requiresScopes)).toEqual([false, true]);
  expect([0, 1, 2, 3].map((position) => table.traitsOf(position).requiresScopes)).toEqual([false, false, false, true]);
  expect(table.guidanceOf(1)).toEqual(policy(2).guidance);
});
