import { join } from "node:path";
import { expect, test } from "vitest";
import { eachInDirectory, fileOf, policiesOf, refused, run } from "./surroundings.ts";

const samplePolicies = join(import.meta.dirname, "../../../policies");
eachInDirectory();

const explainIn = (policies: string, ...options: string[]) => run("policy", "explain", policies, ...options);
const explain = (...options: string[]) => explainIn(samplePolicies, ...options);

const asked = ["--tenant", "tenant-a", "--action", "access", "--application", "payroll", "--kind", "record"];

test("a permit beside a forbid, and a policy with an error, are distinguished from a false condition", async () => {
  const sum = "context.claimed has content_size_bytes && context.claimed.content_size_bytes + 9223372036854775807 == 0";
  const all = `@id("all") permit (principal, action, resource);
     @id("none") forbid (principal, action, resource) unless { context.claimed has purpose };
     @id("clerks") permit (principal, action == Action::"protect", resource);
     @id("sum") forbid (principal, action, resource) when { ${sum} };`;
  const policies = policiesOf("policies", { "all.cedar": all });
  const denied = await explainIn(policies, ...asked);
  expect(denied.out).toContain("\n    permit all (set/all.cedar:1): holds, but a forbid decides\n");
  expect(denied.out).toContain("  of other actions: clerks");
  const failed = await explainIn(policies, ...asked, "--size", "1");
  expect(failed.out).toContain("\n    permit all (set/all.cedar:1): holds, but a policy that fails decides\n");
  expect(failed.out).toMatch(/\n {4}cannot be evaluated: @id\("sum"\) forbid/);
});

test("as JSON: the decision and its layers, absent inputs as null", async () => {
  const { out } = await explain(...asked, "--json", "--attribute", "region=eu", "processing_region=us=x");
  const { ok, allow, reasons, layers } = JSON.parse(out);
  expect([ok, allow, reasons]).toEqual([true, false, ["tenant/eu-residency"]]);
  expect(layers[1].policies[0]).toMatchObject({
    id: "eu-residency",
    effect: "forbid",
    inputs: { "attributes.processing_region": "us=x", "attributes.region": "eu" },
    annotations: {},
  });
  expect(JSON.stringify(layers)).toContain('"purpose":null');
});

test("a file asks the same as options", async () => {
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
  const file = fileOf("question.json", JSON.stringify(question));
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

const testsFile = join(import.meta.dirname, "../../../policies/tests/default.yaml");

test("a test of a tests file asks its question", async () => {
  const { out } = await explain("--request", testsFile, "--test", "do-not-export denies");
  expect(out).toMatch(/^DENY .*\nbecause of: platform\/do-not-export\n/);
});

test.each([
  [["--action", "access"], "tenant must be text"],
  [asked.toSpliced(6, 2), "claimed.resource.kind must be text"],
  [[...asked, "--attribute", "region"], "--attribute must be key=value"],
  [[...asked, "--size", "1e3"], "claimed.content_size_bytes must be an integer from 0"],
  [["--test", "x"], "--test: is about --request"],
  [["--request", testsFile, "--test", "no such name"], "has no test of this name"],
  [["--request", testsFile, "--test", "record"], "tests have this in their name"],
  [[...asked, "--request", "x"], "--request takes the place of"],
  [["--request", "/nowhere/at/all"], "--request: the file cannot be read (ENOENT)"],
])("%j is refused", async (options, problem) => {
  await refused(explain(...options), problem);
});

test.each([
  ["{", "is neither JSON nor YAML"],
  ["[]", "a question must be a map"],
  ['{"tenant": "t", "expect": {}}', "a question has an unknown member expect"],
])("a file with %s is refused", async (text, problem) => {
  await refused(explain("--request", fileOf("question.json", text)), problem);
});
