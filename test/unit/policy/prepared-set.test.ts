import * as cedar from "@cedar-policy/cedar-wasm/nodejs";
import { beforeEach, expect, test, vi } from "vitest";
import { differenceOn } from "../../../src/policy/check/differential-run.ts";
import { cedarRequestBuilder } from "../../../src/policy/evaluate/cedar-request.ts";
import { PreparedSet } from "../../../src/policy/evaluate/prepared-set.ts";
import { inputCatalogue } from "../../../src/policy/model/inputs.ts";
import { ask, permitAll } from "./harness.ts";

vi.mock("@cedar-policy/cedar-wasm/nodejs", { spy: true });
beforeEach(() => vi.clearAllMocks());

const catalogue = inputCatalogue({});
const request = cedarRequestBuilder(catalogue.names, catalogue)(ask("protect", { purpose: "audit" }));
const reading = (purpose: string) =>
  `@id("reads") permit (principal, action, resource) when { context.claimed has purpose && context.claimed.purpose == "${purpose}" };`;
const prepared = () => vi.mocked(cedar.preparsePolicySet).mock.calls;

test("names of released sets are used again", () => {
  const keep = new PreparedSet([permitAll]);
  for (let reload = 0; reload < 20; reload++) new PreparedSet([reading(`number ${reload}`)]).release();
  expect(prepared()).toHaveLength(21);
  expect(new Set(prepared().map(([name]) => name)).size).toBe(2);
  keep.release();
});

test("a released set answers nothing, and leaves another with its text alone", () => {
  const [first, second] = [new PreparedSet([permitAll]), new PreparedSet([permitAll])];
  first.release();
  first.release();
  const other = new PreparedSet([reading("nothing")]);
  expect(second.evaluate(request)).toEqual({ outcome: "allow", policies: [0] });
  expect(other.evaluate(request)).toEqual({ outcome: "deny", policies: [] });
  expect(first.evaluate(request)).toEqual({ outcome: "error", policies: [] });
  second.release();
  expect(second.evaluate(request)).toEqual({ outcome: "error", policies: [] });
  other.release();
});

test("policies that do not parse are not treated as empty", () => {
  expect(() => new PreparedSet(["permit"])).toThrow(TypeError);
});

// The last: the engine answers nothing after it. The check refuses such policies, so that none comes near it.
test("an engine that fails denies, and reports the failure", () => {
  expect(new PreparedSet([permitAll]).evaluate(request).outcome).toBe("allow");
  const clauses = Array.from({ length: 500 }, () => `when { action == Action::"protect" }`).join("\n");
  const text = `permit (principal, action, resource) ${clauses};`;
  const deep = new PreparedSet([text]);
  expect(() => deep.diagnose(request)).toThrow(expect.objectContaining({ name: "RuntimeError" }));
  expect(deep.evaluate(request).outcome).toBe("error");
  // A set that Cedar was not asked about is not one that agrees with it.
  const compared = () =>
    differenceOn([[0, { text } as never]], undefined as never, undefined as never, [request as never]);
  expect(compared).toThrow(expect.objectContaining({ name: "RuntimeError" }));
});
