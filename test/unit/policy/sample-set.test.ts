import * as fileSystem from "node:fs/promises";
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { loadPolicyDirectory } from "../../../src/policy/check/check.ts";
import { compilePolicyBundle } from "../../../src/policy/engine/engine.ts";
import { runPolicyTests } from "../../../src/policy/engine/policy-tests.ts";
import { loadPolicyTests } from "../../../src/policy/load/directory.ts";
import { publishedSchema } from "../../../src/policy/model/schema.ts";
import { ask } from "./harness.ts";

const directory = new URL("../../../policies", import.meta.url).pathname;

async function sample() {
  const { bundle } = await loadPolicyDirectory(directory, fileSystem);
  const compiled = bundle === undefined ? undefined : compilePolicyBundle(bundle);
  if (compiled === undefined || compiled.problems) throw new Error("the sample set does not load");
  return compiled.engine;
}

test("the sample set decides as its expected decisions say, and they exercise every policy", async () => {
  const engine = await sample();
  const { tests, problems } = await loadPolicyTests(directory, fileSystem);
  expect(problems).toEqual([]);
  const report = runPolicyTests(engine, tests);
  expect(report.results.flatMap(({ test, differences }) => differences.map((text) => `${test.name}: ${text}`))).toEqual(
    [],
  );
  expect(report.passed).toBe(true);
  expect(report.unexercised.map(({ set, id }) => `${set}/${id}`)).toEqual([]);
  expect(engine.policies.length).toBeGreaterThanOrEqual(12);
});

test("a test that is not exercised, or wrong, is reported", async () => {
  const engine = await sample();
  const { tests } = await loadPolicyTests(directory, fileSystem);
  const [first] = tests;
  if (first === undefined) throw new Error("no tests");
  const wrong = { ...first, expect: { allow: false, reasons: ["tenant/x"], guidance: { artifact_profile: "tdf" } } };
  const report = runPolicyTests(engine, [wrong]);
  expect(report.passed).toBe(false);
  expect(report.results[0]?.differences).toEqual([
    "allow: expected false, got true",
    'reasons: expected ["tenant/x"], got ["platform/data-operations","tenant/ordinary-work"]',
    'guidance.artifact_profile: expected "tdf", got "envelope"',
  ]);
  expect(report.unexercised.map(({ id }) => id)).toContain("do-not-export");
});

test("every action is allowed to an ordinary caller without optional members, with and without a key reference", async () => {
  const engine = await sample();
  for (const action of ["protect", "access", "rewrap", "wrap", "unwrap", "rewrapKey"] as const) {
    expect(engine.decide(ask(action)).allow, action).toBe(true);
    expect(engine.decide(ask(action, { key_reference: "local-tdf-key" })).allow, action).toBe(true);
  }
});

test("every policy of the sample set has a comment before it", async () => {
  for (const { file, id, line } of (await sample()).policies) {
    const lines = (await readFile(`${directory}/${file}`, "utf8")).split("\n");
    expect(lines[line - 2], `${file} ${id}`).toMatch(/^\/\/ \S/);
  }
});

test("the schema beside the sample set is the published one", async () => {
  expect(await readFile(`${directory}/schema.cedarschema`, "utf8")).toBe(publishedSchema);
});
