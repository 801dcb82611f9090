/** What runs over the stack of Cedar's engine. The check refuses such policies, so that none comes near it. */
import { expect, test } from "vitest";
import { differenceOn } from "../../../src/policy/check/differential-run.ts";
import { PreparedSet } from "../../../src/policy/evaluate/prepared-set.ts";

const kind = 'action == Action::"protect"';
const request = {
  principal: { type: "Principal", id: "a" },
  action: { type: "Action", id: "protect" },
  resource: { type: "Resource", id: "a" },
  context: {},
  entities: [],
};

test("an engine that fails denies, and reports the failure", () => {
  const sound = new PreparedSet(["permit (principal, action, resource);"]);
  expect(sound.evaluate(request).outcome).toBe("allow");
  const clauses = Array.from({ length: 500 }, () => `when { ${kind} }`).join("\n");
  const text = `permit (principal, action, resource) ${clauses};`;
  const deep = new PreparedSet([text]);
  expect(() => deep.diagnose(request)).toThrow(expect.objectContaining({ name: "RuntimeError" }));
  expect(deep.evaluate(request).outcome).toBe("error");
  // A set that Cedar was not asked about is not one that agrees with it.
  const compared = () => differenceOn([[0, { text } as never]], undefined as never, undefined as never, [request]);
  expect(compared).toThrow(expect.objectContaining({ name: "RuntimeError" }));
});
