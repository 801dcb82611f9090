import * as fileSystem from "node:fs/promises";
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { loadPolicyDirectory } from "../../../src/policy/check/check.ts";
import { compilePolicyBundle } from "../../../src/policy/engine/engine.ts";
import { publishedSchema } from "../../../src/policy/model/schema.ts";
import { ask } from "./harness.ts";

const directory = new URL("../../../policies", import.meta.url).pathname;

async function sample() {
  const { bundle } = await loadPolicyDirectory(directory, fileSystem);
  const compiled = bundle === undefined ? undefined : compilePolicyBundle(bundle);
  if (compiled === undefined || compiled.problems) throw new Error("the sample set does not load");
  return compiled.engine;
}

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
