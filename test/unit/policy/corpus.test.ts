import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type AuthorizationCall, isAuthorized } from "@cedar-policy/cedar-wasm/nodejs";
import { expect, test } from "vitest";
import { corpusDisagreements, noCorpusCounts } from "../../harness/policy-corpus.ts";

const root = fileURLToPath(new URL("../../fixtures/policy-corpus", import.meta.url));
const text = (file: string) => readFileSync(join(root, file), "utf8");
const tests = ["corpus-tests/notes.json", "corpus-tests/rates.json"] as const;

test("what tests in the corpus's format expect is what the evaluator gives, as far as it evaluates", () => {
  const counts = noCorpusCounts();
  expect(tests.flatMap((file) => corpusDisagreements(root, file, counts))).toEqual([]);
  expect(counts).toEqual({ requests: 6, covered: 5, partly: 1, left: 0 });
});

test.each(tests)("%s says what Cedar does", (file) => {
  const { policies, entities, schema, requests } = JSON.parse(text(file));
  for (const { description: _, validateRequest, decision, reason, errors, ...request } of requests) {
    const answer = isAuthorized({
      ...request,
      ...{ entities: JSON.parse(text(entities)), schema: text(schema), validateRequest },
      policies: { staticPolicies: text(policies) },
    } as AuthorizationCall);
    if (answer.type === "failure") throw new Error(answer.errors[0]?.message);
    const { diagnostics } = answer.response;
    expect({
      decision: answer.response.decision,
      reason: diagnostics.reason,
      errors: diagnostics.errors.map(({ policyId }) => policyId).sort(),
    }).toEqual({ decision, reason, errors });
  }
});

test.each([
  ["a reason", '"policy2"', '"policy1"'],
  ["an error", '"errors": ["policy1", "policy2"]', '"errors": []'],
  ["a decision", '"decision": "allow"', '"decision": "deny"'],
])("%s that is not the evaluator's is a disagreement", (_what, from, to) => {
  const directory = mkdtempSync(join(tmpdir(), "policy-corpus-"));
  cpSync(root, directory, { recursive: true });
  const changed = text(tests[0]).replace(from, to);
  expect(changed).not.toBe(text(tests[0]));
  writeFileSync(join(directory, tests[0]), changed);
  expect(corpusDisagreements(directory, tests[0], noCorpusCounts())).not.toEqual([]);
  rmSync(directory, { recursive: true });
});
