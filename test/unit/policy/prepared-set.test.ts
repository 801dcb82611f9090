import * as cedar from "@cedar-policy/cedar-wasm/nodejs";
import { expect, test, vi } from "vitest";
import { PreparedSet } from "../../../src/policy/prepared-set.ts";
import { publishedSchema } from "../../../src/policy/schema.ts";
import { permitAll } from "./harness.ts";

vi.mock("@cedar-policy/cedar-wasm/nodejs", { spy: true });

test("names of released sets are used again, and the schema is parsed once", () => {
  const keep = new PreparedSet({ all: permitAll }, publishedSchema);
  for (let reload = 0; reload < 20; reload++) new PreparedSet({ all: permitAll }, publishedSchema).release();
  const names = vi.mocked(cedar.preparsePolicySet).mock.calls.map(([name]) => name);
  expect(names).toHaveLength(41);
  expect(new Set(names).size).toBe(2);
  expect(vi.mocked(cedar.preparseSchema)).toHaveBeenCalledTimes(1);
  keep.release();
});

test("policies and schemas that do not parse are not taken for empty ones", () => {
  expect(() => new PreparedSet({ all: "permit" }, publishedSchema)).toThrow(TypeError);
  expect(() => new PreparedSet({ all: permitAll }, "entity")).toThrow(TypeError);
});
