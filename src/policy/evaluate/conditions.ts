/**
 * Finds the conditions of policies that hold for a request. Cedar evaluates every condition as a separate policy, so
 * that an explanation cannot differ from the decision.
 */
import type { Clause, Expr, PolicyJson, StaticPolicySet } from "@cedar-policy/cedar-wasm/nodejs";
import { cedar, parsedPolicy } from "../model/cedar.ts";
import type { CedarRequest } from "./cedar-request.ts";
import { scopeConditions } from "./program.ts";

/** A condition that every request must meet for the policy to apply. */
export interface Condition {
  /** In Cedar's syntax; the whole policy from its file if it cannot be split into conditions. */
  readonly text: string;
  /** Undefined for such a policy. */
  readonly expression: Expr | undefined;
  /**
   * `unknown` if it can be evaluated only after another condition holds, and that one does not:
   * `context.claimed.purpose` is not read if it is absent. Also if the policy fails.
   */
  readonly state: "fails" | "unknown";
}

/**
 * Returns the unmet conditions of each policy, in the order of Cedar's evaluation: its scope without the action, then
 * its clauses. A policy applies if there are none.
 *
 * @param policies texts of one policy each, whose scopes admit the action
 */
export function unmetConditions(policies: readonly string[], request: CedarRequest): readonly (readonly Condition[])[] {
  const conjuncts = policies.map(conjunctsOf);
  const asked = conjuncts.flat().filter((each) => typeof each !== "string");
  const each = asked.map((body, index) => [`${index}`, policyWith([{ kind: "when", body }])] as const);
  const { reason, errors } = evaluate(Object.fromEntries(each), request);
  const stateOf = (id: string) => (reason.has(id) ? "holds" : errors.has(id) ? "unknown" : "fails");
  const states = new Map(asked.map((expression, index) => [expression, stateOf(`${index}`)] as const));
  return conjuncts.map((own) =>
    own.flatMap((one): readonly Condition[] => {
      const state = typeof one === "string" ? stateOfPolicy(one, request) : states.get(one);
      if (state === "holds" || state === undefined) return [];
      return typeof one === "string"
        ? [{ text: one, expression: undefined, state }]
        : [{ text: expressionText(one), expression: one, state }];
    }),
  );
}

/** An expression in Cedar's syntax. */
export function expressionText(expression: Expr): string {
  const written = cedar().policyToText(policyWith([{ kind: "when", body: expression }]));
  const [, text] =
    (written.type === "success" && /^permit\([^)]*\) when \{ ([\s\S]*) \};\s*$/.exec(written.text)) || [];
  if (text === undefined) throw new TypeError("an expression of a parsed policy cannot be written");
  return text;
}

function stateOfPolicy(policy: string, request: CedarRequest): Condition["state"] | "holds" {
  const { reason, errors } = evaluate(policy, request);
  if (errors.size > 0) return "unknown";
  return reason.size > 0 ? "holds" : "fails";
}

/** Ids of the policies that decide, and of those that fail. Of permits, none affects another. */
function evaluate(staticPolicies: StaticPolicySet, request: CedarRequest) {
  const answer = cedar().isAuthorized({ ...request, policies: { staticPolicies } });
  if (answer.type === "failure") {
    throw new TypeError(`conditions cannot be evaluated: ${answer.errors.map(({ message }) => message).join("; ")}`);
  }
  const { reason, errors } = answer.response.diagnostics;
  return { reason: new Set(reason), errors: new Set(errors.map(({ policyId }) => policyId)) };
}

function conjunctsOf(text: string): readonly (Expr | string)[] {
  const { principal, resource, conditions } = parsedPolicy(text);
  if (hasUnsafeNumber(conditions)) return [text];
  return [
    ...scopeConditions("principal", principal),
    ...scopeConditions("resource", resource),
    ...conditions.flatMap(({ kind, body }) => split(body, kind === "unless")),
  ];
}

/** Whether Cedar's tree has a number that JSON cannot hold, which is then another one: only the text says which. */
export function hasUnsafeNumber(tree: unknown): boolean {
  if (typeof tree === "number") return !Number.isSafeInteger(tree);
  return typeof tree === "object" && tree !== null && Object.values(tree).some(hasUnsafeNumber);
}

/** Splits the expression, or its negation, into conditions that must all hold, in Cedar's order of evaluation. */
function split(expression: Expr, isNegated: boolean): readonly Expr[] {
  const { "!": not, "&&": and, "||": or } = expression as Partial<Record<"!" | "&&" | "||", Operands>>;
  if (not?.arg !== undefined) return split(not.arg, !isNegated);
  const both = isNegated ? or : and;
  if (both?.left !== undefined && both.right !== undefined) {
    return [...split(both.left, isNegated), ...split(both.right, isNegated)];
  }
  return [isNegated ? { "!": { arg: expression } } : expression];
}

interface Operands {
  readonly arg?: Expr;
  readonly left?: Expr;
  readonly right?: Expr;
}

function policyWith(conditions: Clause[]): PolicyJson {
  return { effect: "permit", principal: { op: "All" }, action: { op: "All" }, resource: { op: "All" }, conditions };
}

/** Completes "needs …". Falls back to the condition in Cedar's syntax. */
export function neededFor(expression: Expr): string {
  const { arg } = (expression as { readonly "!"?: { readonly arg: Expr } })["!"] ?? {};
  return (arg === undefined ? wordsOf(expression, "to") : wordsOf(arg, "not to")) ?? expressionText(expression);
}

function wordsOf(expression: Expr, to: "to" | "not to"): string | undefined {
  const [operator = "", operands] = Object.entries(expression)[0] ?? [];
  const { left, right, attr } = operands as { left?: Expr; right?: Expr; attr?: string | readonly string[] };
  if (left === undefined) return undefined;
  if (operator === "has") return `${[expressionText(left), ...[attr ?? []].flat()].join(".")} ${to} be present`;
  if (right === undefined) return undefined;
  // In a literal list, the list contains the value, not the other way round.
  const { Set: items } = left as { readonly Set?: readonly Expr[] };
  if (operator === "contains" && items !== undefined) {
    return `${expressionText(right)} ${to} be one of ${items.map(expressionText).join(", ")}`;
  }
  const verb = verbs[operator];
  return verb && `${expressionText(left)} ${to} ${verb} ${expressionText(right)}`;
}

const verbs: Readonly<Record<string, string>> = {
  "==": "be",
  in: "be in",
  contains: "contain",
  containsAll: "contain all of",
  containsAny: "contain any of",
  hasTag: "have the tag",
};
