/** Expected decisions and explanations of callers with attributes: what there cannot be is told, not passed over. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runCommandLine } from "../../../src/cli/run.ts";
import { parsePolicyTests } from "../../../src/policy/tools/policy-test-file.ts";
import { runPolicyTests } from "../../../src/policy/tools/policy-tests.ts";
import { captureTerminal } from "../cli/terminal.ts";
import { declaringFiles, engineOf } from "./harness.ts";

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "attribute-tests-"));
  for (const [file, text] of Object.entries(declaringFiles)) {
    mkdirSync(dirname(join(directory, file)), { recursive: true });
    writeFileSync(join(directory, file), text);
  }
});
afterAll(() => rmSync(directory, { recursive: true }));

const testWith = (attributes: string, allow = true) => `- name: one
  tenant: tenant-a
  principal: { attributes: ${attributes} }
  action: protect
  claimed: { workload: { application: a }, resource: { kind: b } }
  expect: { allow: ${allow} }
`;

test.each([
  ["{ clearance: 3, roles: [a], on_call: no, constructor: x }", ["the attribute on_call must be true or false"]],
  ["{ clearance: 3, roles: [a], on_call: false, constructor: x }", []],
  ["{ clearance: 3, role: [a] }", ["the attribute role is not declared"]],
  ["{}", ["the attribute clearance is required"]],
  ["{ clearance: high }", ["the attribute clearance must be a whole number"]],
  ["{ clearance: 3, roles: a }", ["the attribute roles must be a list of at most 1000 texts"]],
])("a test of a caller with %s", async (attributes, problems) => {
  const engine = await engineOf(declaringFiles);
  for (const allow of [true, false]) {
    const { tests } = parsePolicyTests("tests/a.yaml", testWith(attributes, allow));
    const [result] = runPolicyTests(engine, tests).results;
    expect(result?.differences).toEqual(expect.arrayContaining([...problems]));
    if (problems.length === 0) expect(result?.differences.length === 0).toBe(allow);
  }
});

test.each(["[a]", "{ clearance: 1.5 }", "{ clearance: null }", "{ roles: [1] }", "{ roles: { a: b } }", "7"])(
  "a test file cannot give attributes as %s",
  (attributes) => {
    const { problems } = parsePolicyTests("tests/a.yaml", testWith(attributes));
    expect(problems).toEqual([expect.objectContaining({ line: 1, message: expect.stringContaining("attributes") })]);
  },
);

async function explain(...attributes: string[]) {
  const { terminal, written } = captureTerminal();
  const asked = ["--tenant", "tenant-a", "--action", "protect", "--application", "a", "--kind", "b"];
  const given = attributes.length === 0 ? [] : ["--principal-attribute", ...attributes];
  await runCommandLine(["policy", "explain", directory, ...asked, ...given], terminal);
  return written;
}

test("an explanation reads each value in its type", async () => {
  const { out, code } = await explain("clearance=-3", "roles=a,b c", "on_call=true", "constructor=x=y");
  expect([code, out.split("\n")[0]]).toEqual([0, expect.stringMatching(/^ALLOW/)]);
});

test.each([
  [[], "the attribute clearance is required"],
  [["clearance=3", "shoe_size=4"], "the attribute shoe_size is not declared"],
  [["clearance=high"], "the attribute clearance must be a whole number"],
  [["clearance=3", "on_call=yes"], "the attribute on_call must be true or false"],
  [["clearance"], "--principal-attribute must be key=value"],
])("an explanation with %j is none", async (attributes, problem) => {
  const { err, code } = await explain(...attributes);
  expect([code, err]).toEqual([1, expect.stringContaining(problem)]);
});

test("the schema of a directory can stand beside it, whatever stood there before", async () => {
  writeFileSync(join(directory, "schema.cedarschema"), "entity Old;");
  const { terminal, written } = captureTerminal();
  await runCommandLine(["policy", "schema", directory], terminal);
  expect(written).toMatchObject({ err: "", code: 0 });
  writeFileSync(join(directory, "schema.cedarschema"), written.out);
  const checked = captureTerminal();
  await runCommandLine(["policy", "check", directory], checked.terminal);
  expect(checked.written).toMatchObject({ err: "", code: 0 });
  rmSync(join(directory, "schema.cedarschema"));
});
