import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runCommandLine } from "../../../src/cli/run.ts";
import { captureTerminal } from "./terminal.ts";

const samplePolicies = join(import.meta.dirname, "../../../policies");
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "explain-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

async function explain(...options: string[]) {
  const { terminal, written } = captureTerminal();
  await runCommandLine(["policy", "explain", samplePolicies, ...options], terminal);
  return written;
}

const asked = ["--tenant", "tenant-a", "--action", "access", "--application", "payroll", "--kind", "record"];

test("a denial is explained, and is no failure", async () => {
  const { out, err, code } = await explain(...asked, "--environment", "production", "--label", "a", "b");
  expect([err, code]).toEqual(["", 0]);
  const lines = out.split("\n");
  expect(lines[0]).toMatch(/^DENY under sha256:/);
  for (const line of [
    "because of: platform/production-access-needs-purpose",
    "platform (set platform): deny",
    "    says required_actions: state-purpose",
    "    read purpose: absent",
    '    read workload.environment: "production"',
    "tenant (set default): allow",
    "  evidence_expected: deny",
  ]) {
    expect(lines).toContain(line);
  }
});

test("for a machine: the decision and its layers, absent facts as null", async () => {
  const { out } = await explain(...asked, "--json", "--attribute", "region=eu", "processing_region=us=x");
  const { ok, allow, reasons, layers } = JSON.parse(out);
  expect([ok, allow, reasons]).toEqual([true, false, ["tenant/eu-residency"]]);
  expect(layers[1].policies[0]).toMatchObject({
    id: "eu-residency",
    effect: "forbid",
    facts: { "attributes.processing_region": "us=x", "attributes.region": "eu" },
    annotations: {},
  });
  expect(JSON.stringify(layers)).toContain('"purpose":null');
});

test("a file asks the same as options", async () => {
  const file = join(directory, "question.json");
  const question = {
    tenant: "tenant-b",
    principal: { principal_id: "p", subject: "s", scopes: ["policy.break-glass", "x"] },
    action: "access",
    claimed: {
      workload: { application: "ledger", environment: "test", component: "c" },
      resource: { kind: "invoice", id: "1", mime_type: "text/plain" },
      purpose: "break-glass",
      labels: ["locked"],
      attributes: { a: "b" },
      artifact_profile: "tdf",
      content_digest_present: true,
      content_size_bytes: 7,
      key_reference: "kms://a",
    },
  };
  writeFileSync(file, JSON.stringify(question));
  const options = [
    ...["--tenant", "tenant-b", "--principal", "p", "--subject", "s", "--scope", "policy.break-glass", "x"],
    ...["--action", "access", "--application", "ledger", "--environment", "test", "--component", "c"],
    ...["--kind", "invoice", "--id", "1", "--mime-type", "text/plain", "--purpose", "break-glass"],
    ...["--label", "locked", "--attribute", "a=b", "--profile", "tdf", "--digest-present", "--size", "7"],
    ...["--key-reference", "kms://a"],
  ];
  const [byFile, byOptions] = [await explain("--json", "--request", file), await explain("--json", ...options)];
  expect(JSON.parse(byFile.out).allow).toBe(true);
  expect(byFile).toEqual(byOptions);
});

test.each([
  [["--action", "access"], "tenant must be text"],
  [asked.toSpliced(6, 2), "claimed.resource.kind must be text"],
  [[...asked, "--attribute", "region"], "--attribute must be key=value"],
  [[...asked, "--size", "1e3"], "claimed.content_size_bytes must be an integer from 0"],
  [[...asked, "--request", "x"], "--request takes the place of"],
  [["--request", "/nowhere/at/all"], "--request: the file cannot be read (ENOENT)"],
])("%j is refused", async (options, problem) => {
  const { err, code } = await explain(...options);
  expect(err).toContain(problem);
  expect(code).toBe(1);
});

test.each([
  ["{", "is neither JSON nor YAML"],
  ["[]", "a question must be a map"],
  ['{"tenant": "t", "expect": {}}', "a question has an unknown member expect"],
])("a file with %s is refused", async (text, problem) => {
  const file = join(directory, "question.json");
  writeFileSync(file, text);
  expect(await explain("--request", file)).toMatchObject({ code: 1, err: expect.stringContaining(problem) });
});
