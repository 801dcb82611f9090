/**
 * Finds the conditions of policies that hold for a request. Cedar evaluates every condition as a separate policy, so
 * that an explanation cannot differ from the decision.
 */
import type { Clause, EntityUidJson, Expr, PolicyJson, StaticPolicySet } from "@cedar-policy/cedar-wasm/nodejs";
import { LRUCache } from "lru-cache";
import { cedar, parsedPolicy } from "../model/cedar.ts";
import type { CedarRequest } from "./cedar-request.ts";

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
  const states = policies.map((text) => conjunctsOf(text).map((asked): Conjunct => ({ asked, state: "unknown" })));
  // A condition that holds may unblock others, so repeat for those.
  while (askAbout(states, request)) {}
  return states.map((conjuncts) => conjuncts.flatMap(conditionOf));
}

const texts = new WeakMap<Expr, string>();

/** An expression in Cedar's syntax. */
export function expressionText(expression: Expr): string {
  const text = texts.get(expression) ?? write(expression);
  texts.set(expression, text);
  return text;
}

function write(expression: Expr): string {
  const written = cedar().policyToText(policyWith([{ kind: "when", body: expression }]));
  const [, text] =
    (written.type === "success" && /^permit\([^)]*\) when \{ ([\s\S]*) \};\s*$/.exec(written.text)) || [];
  if (text === undefined) throw new TypeError("an expression of a parsed policy cannot be written");
  return text;
}

interface Conjunct {
  /** A part of a policy, or the text of a policy without parts. */
  readonly asked: Expr | string;
  state: Condition["state"] | "holds";
}

function conditionOf({ asked, state }: Conjunct): readonly Condition[] {
  if (state === "holds") return [];
  return typeof asked === "string"
    ? [{ text: asked, expression: undefined, state }]
    : [{ text: expressionText(asked), expression: asked, state }];
}

/** Returns whether anything new was found. Each open condition is evaluated after the earlier ones that hold. */
function askAbout(policies: readonly (readonly Conjunct[])[], request: CedarRequest): boolean {
  const asked = new Map<string, { readonly conjunct: Conjunct; readonly policy: PolicyJson }>();
  for (const [index, conjuncts] of policies.entries()) {
    const held: Clause[] = [];
    for (const [position, conjunct] of conjuncts.entries()) {
      if (typeof conjunct.asked === "string") {
        conjunct.state = stateOf(conjunct.asked, request);
        continue;
      }
      const clause: Clause = { kind: "when", body: conjunct.asked };
      if (conjunct.state === "holds") held.push(clause);
      if (conjunct.state !== "unknown") continue;
      asked.set(`${index} ${position}`, { conjunct, policy: policyWith([...held, clause]) });
    }
  }
  if (asked.size === 0) return false;
  const { reason, errors } = evaluate(Object.fromEntries([...asked].map(([id, { policy }]) => [id, policy])), request);
  for (const [id, { conjunct }] of asked) {
    if (reason.has(id)) conjunct.state = "holds";
    else if (!errors.has(id)) conjunct.state = "fails";
  }
  return errors.size < asked.size && errors.size > 0;
}

function stateOf(policy: string, request: CedarRequest): Conjunct["state"] {
  const { reason, errors } = evaluate(policy, request);
  if (errors.size > 0) return "unknown";
  return reason.size > 0 ? "holds" : "fails";
}

/** Ids of the policies that decide, and of those that fail. All are permits, so none affects another. */
function evaluate(staticPolicies: StaticPolicySet, request: CedarRequest) {
  const answer = cedar().isAuthorized({ ...request, policies: { staticPolicies } });
  if (answer.type === "failure") {
    throw new TypeError(`conditions cannot be evaluated: ${answer.errors.map(({ message }) => message).join("; ")}`);
  }
  const { reason, errors } = answer.response.diagnostics;
  return { reason: new Set(reason), errors: new Set(errors.map(({ policyId }) => policyId)) };
}

/** Trees are ten times as large as their texts, so only some are cached for the next question. */
const known = new LRUCache<string, readonly (Expr | string)[]>({ max: 1_000 });

function conjunctsOf(text: string): readonly (Expr | string)[] {
  const conjuncts = known.get(text) ?? takeApart(text);
  known.set(text, conjuncts);
  return conjuncts;
}

function takeApart(text: string): readonly (Expr | string)[] {
  const { principal, resource, conditions } = parsedPolicy(text);
  // Cedar's JSON output changes numbers that JSON cannot hold.
  if (hasUnsafeNumber(conditions)) return [text];
  return [
    ...scopeConditions("principal", principal),
    ...scopeConditions("resource", resource),
    ...conditions.flatMap(({ kind, body }) => split(body, kind === "unless")),
  ];
}

function hasUnsafeNumber(tree: unknown): boolean {
  if (typeof tree === "number") return !Number.isSafeInteger(tree);
  return typeof tree === "object" && tree !== null && Object.values(tree).some(hasUnsafeNumber);
}

function scopeConditions(variable: "principal" | "resource", constraint: PolicyJson["principal"]): readonly Expr[] {
  const left: Expr = { Var: variable };
  const entity = (uid: EntityUidJson): Expr => ({ Value: { __entity: "__entity" in uid ? uid.__entity : uid } });
  if (constraint.op === "is") {
    const within = constraint.in !== undefined && "entity" in constraint.in ? { in: entity(constraint.in.entity) } : {};
    return [{ is: { left, entity_type: constraint.entity_type, ...within } }];
  }
  if (constraint.op === "All" || !("entity" in constraint)) return [];
  const right = entity(constraint.entity);
  return [constraint.op === "==" ? { "==": { left, right } } : { in: { left, right } }];
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
  if (operator === "has") return `${member(left, attr)} ${to} be present`;
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

function member(left: Expr, attr: string | readonly string[] = []): string {
  return [expressionText(left), ...[attr].flat()].join(".");
}
