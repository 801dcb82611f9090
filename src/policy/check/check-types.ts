/** Checks policies against the schema. */
import type { DetailedError, ValidationAnswer } from "@cedar-policy/cedar-wasm/nodejs";
import { cedar } from "../model/cedar.ts";
import { indexOfByte, lineAt } from "../model/policy-text.ts";
import type { PolicyProblem } from "../model/problem.ts";
import type { CheckedPolicy } from "./check-policy.ts";

/** Returns the type errors of the policies of one set. */
export type TypeChecker = (policies: readonly CheckedPolicy[]) => readonly PolicyProblem[];

/**
 * Type errors, and warnings too: a policy that can never apply, or text made to look like other text, is a mistake.
 * Cedar checks each policy by itself, so a text without errors has none in any set.
 */
export function typeChecker(schema: string): TypeChecker {
  const good = new Set<string>();
  return (policies) => {
    const fresh = policies.filter(({ text }) => !good.has(text));
    if (fresh.length === 0) return [];
    // Joined into one text they cost Cedar half as much, but then errors name neither policies nor lines.
    const together = validated(schema, fresh.map(({ text }) => text).join("\n"));
    if (together.type === "failure" || complaints(together).length > 0) return typeProblems(fresh, schema);
    for (const { text } of fresh) good.add(text);
    return [];
  };
}

function validated(schema: string, staticPolicies: string | Record<string, string>): ValidationAnswer {
  return cedar().validate({ schema, policies: { staticPolicies }, validationSettings: { mode: "strict" } });
}

function complaints(answer: Extract<ValidationAnswer, { readonly type: "success" }>) {
  return [...answer.validationErrors, ...answer.validationWarnings];
}

function typeProblems(policies: readonly CheckedPolicy[], schema: string): readonly PolicyProblem[] {
  const byId = new Map(policies.map((policy) => [policy.id, policy]));
  const answer = validated(schema, Object.fromEntries(policies.map(({ id, text }) => [id, text])));
  if (answer.type === "failure") return answer.errors.map(({ message }) => ({ file: "schema.cedarschema", message }));
  return complaints(answer).map(({ policyId, error }): PolicyProblem => {
    const policy = byId.get(policyId) as CheckedPolicy;
    const help = error.help?.replace(/^for policy `[^`]*`, /, "");
    // Cedar calls any entity `e`; there is one of this type.
    const hint = error.message.includes("entity type `Principal`") ? help?.replace("`e has ", "`principal has ") : help;
    return {
      file: policy.file,
      line: policy.line + lineWithin(error, policy.text) - 1,
      // Cedar repeats the message for each action.
      message: `${policyId}: ${error.message.replace(/^for policy `[^`]*`[,:] /, "").replace(/ for Action::"\w+"/, "")}`,
      ...(hint !== undefined && { hint }),
    };
  });
}

function lineWithin(error: DetailedError, text: string): number {
  return lineAt(text, indexOfByte(text, error.sourceLocations?.[0]?.start ?? 0));
}
