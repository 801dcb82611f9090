/**
 * A policy for the evaluator and for its checks: the conditions to apply, in Cedar's order, from Cedar's syntax tree and
 * a tenth of its size. Cedar evaluates a policy with a part that the evaluator does not support: an unrecognized
 * operator, a function, or a number that does not survive JSON.
 */
import type { EntityUidJson, Expr, PolicyJson } from "@cedar-policy/cedar-wasm/nodejs";

const unary = ["!", "neg", "isEmpty"] as const;
const binary = [
  ...(["&&", "||", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*"] as const),
  ...(["in", "contains", "containsAll", "containsAny", "hasTag", "getTag"] as const),
] as const;
type Unary = (typeof unary)[number];
export type Binary = (typeof binary)[number];

export type Expression =
  /** Name of a variable, then of members. */
  | readonly ["path", string, ...string[]]
  | readonly ["value", string | number | boolean]
  /** Type and id. */
  | readonly ["entity", string, string]
  | readonly ["set", readonly Expression[]]
  | readonly ["record", readonly (readonly [string, Expression])[]]
  | readonly [".", Expression, string]
  /** Names of nested members. */
  | readonly ["has", Expression, ...string[]]
  /** Texts between wildcards. */
  | readonly ["like", Expression, ...string[]]
  | readonly ["is", Expression, string]
  | readonly ["if", Expression, Expression, Expression]
  | readonly [Unary, Expression]
  | readonly [Binary, Expression, Expression]
  /** Name and arguments of a function, such as `decimal`. */
  | readonly ["call", string, readonly Expression[]]
  | readonly ["unknown"];

export interface Program {
  readonly forbids: boolean;
  /** Evaluated in this order, before the conditions, until one does not hold. */
  readonly scope: readonly Expression[];
  readonly conditions: readonly Expression[];
  /** Whether the evaluator supports all parts. */
  readonly isKnown: boolean;
}

export function programOf({ effect, principal, action, resource, conditions }: PolicyJson): Program {
  const scope = [
    ...scopeConditions("principal", principal),
    ...scopeConditions("action", action),
    ...scopeConditions("resource", resource),
  ].flatMap((condition) => conjuncts(expressionOf(condition)));
  const clauses = conditions.flatMap(({ kind, body }): readonly Expression[] =>
    kind === "when" ? conjuncts(expressionOf(body)) : [["!", expressionOf(body)]],
  );
  const isKnown = [...scope, ...clauses].every(isSupported);
  return { forbids: effect === "forbid", scope, conditions: clauses, isKnown };
}

/** The expressions within an expression, in their order. */
export function operandsOf(expression: Expression): readonly Expression[] {
  switch (expression[0]) {
    case "set":
      return expression[1];
    case "call":
      return expression[2];
    case "record":
      return expression[1].map(([, member]) => member);
    default:
      return expression.filter((part) => typeof part === "object") as readonly Expression[];
  }
}

export function isBinary(expression: Expression): expression is readonly [Binary, Expression, Expression] {
  return (binary as readonly string[]).includes(expression[0]);
}

/** Whether it is the path, such as `principal`, or `context.claimed.purpose`. */
export function isPath(expression: Expression | undefined, path: string): boolean {
  return expression?.[0] === "path" && expression.slice(1).join(".") === path;
}

type Constraint = PolicyJson["principal"] | PolicyJson["action"] | PolicyJson["resource"];

/** The conditions of a scope, as Cedar writes such conditions elsewhere. */
export function scopeConditions(name: "principal" | "action" | "resource", scope: Constraint): readonly Expr[] {
  const left: Expr = { Var: name };
  const value = (uid: EntityUidJson): Expr => ({ Value: { __entity: "__entity" in uid ? uid.__entity : uid } });
  if (scope.op === "All") return [];
  if (scope.op === "is") {
    const { entity_type, in: within } = scope;
    if (within === undefined) return [{ is: { left, entity_type } }];
    return "entity" in within ? [{ is: { left, entity_type, in: value(within.entity) } }] : [unrecognized];
  }
  if ("slot" in scope) return [unrecognized];
  const right: Expr = "entities" in scope ? { Set: scope.entities.map(value) } : value(scope.entity);
  return [scope.op === "==" ? { "==": { left, right } } : { in: { left, right } }];
}

const unrecognized = { unrecognized: {} } as unknown as Expr;

function conjuncts(expression: Expression): readonly Expression[] {
  return expression[0] === "&&" ? [...conjuncts(expression[1]), ...conjuncts(expression[2])] : [expression];
}

type Node = Readonly<Record<string, unknown>>;

export const variables: readonly string[] = ["principal", "action", "resource", "context"];

const unknown: Expression = ["unknown"];

export function expressionOf(tree: unknown): Expression {
  const entries = Object.entries(tree as Node);
  const [operator = "", operand] = entries[0] ?? [];
  if (entries.length !== 1) return unknown;
  if (operator === "Value") return literalOf(operand);
  if (operator === "Var") return variables.includes(operand as string) ? ["path", operand as string] : unknown;
  if (typeof operand !== "object" || operand === null) return unknown;
  if (Array.isArray(operand)) {
    const parts = operand.map(expressionOf);
    return operator === "Set" ? ["set", parts] : ["call", operator, parts];
  }
  if (operator === "Record") {
    return ["record", Object.entries(operand).map(([name, value]) => [name, expressionOf(value)] as const)];
  }
  const { left, right, arg, attr, pattern, entity_type: type, in: within, ...others } = operand as Node;
  if (operator === "if-then-else") {
    const { if: condition, then, else: otherwise } = others;
    return ["if", expressionOf(condition), expressionOf(then), expressionOf(otherwise)];
  }
  if (Object.keys(others).length > 0) return unknown;
  if ((unary as readonly string[]).includes(operator)) return [operator as Unary, expressionOf(arg)];
  if (left === undefined) return unknown;
  const first = expressionOf(left);
  if ((binary as readonly string[]).includes(operator)) return [operator as Binary, first, expressionOf(right)];
  switch (operator) {
    case ".":
      if (typeof attr !== "string") return unknown;
      return first[0] === "path" ? [...first, attr] : [".", first, attr];
    case "has": {
      const names = [attr].flat();
      return names.every((name) => typeof name === "string") ? ["has", first, ...names] : unknown;
    }
    case "like":
      return likeOf(first, pattern);
    case "is": {
      if (typeof type !== "string") return unknown;
      const isType: Expression = ["is", first, type];
      return within === undefined ? isType : ["&&", isType, ["in", first, expressionOf(within)]];
    }
    default:
      return unknown;
  }
}

function literalOf(value: unknown): Expression {
  if (typeof value === "string" || typeof value === "boolean" || typeof value === "number") return ["value", value];
  if (typeof value !== "object" || value === null || Object.keys(value).join() !== "__entity") return unknown;
  const { type, id } = (value as { readonly __entity: Readonly<Record<string, unknown>> }).__entity;
  return typeof type === "string" && typeof id === "string" ? ["entity", type, id] : unknown;
}

function likeOf(left: Expression, pattern: unknown): Expression {
  if (!Array.isArray(pattern)) return unknown;
  const texts = [""];
  for (const element of pattern as readonly unknown[]) {
    const literal = (Object(element) as { readonly Literal?: unknown }).Literal;
    if (element === "Wildcard") texts.push("");
    else if (typeof literal === "string") texts.push(`${texts.pop()}${literal}`);
    else return unknown;
  }
  return ["like", left, ...texts];
}

function isSupported(expression: Expression): boolean {
  if (expression[0] === "unknown" || expression[0] === "call") return false;
  return isExact(expression) && operandsOf(expression).every(isSupported);
}

/** Whether it is not a number that JSON rounded, to one that is not a safe integer either. */
export function isExact(expression: Expression): boolean {
  return expression[0] !== "value" || typeof expression[1] !== "number" || Number.isSafeInteger(expression[1]);
}
