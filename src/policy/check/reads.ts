/**
 * Which inputs a policy reads, from its syntax tree. Never too few: whatever this file does not recognise counts as
 * reading everything, because the decision cache is exact only if no input that decides is left out.
 */
import type { PolicyJson } from "@cedar-policy/cedar-wasm/nodejs";
import { allInputNames, attributePrefix, inputNamesAt } from "../engine/inputs.ts";

/** Names of the inputs (see `inputs.ts`) that the policy reads, sorted. */
export function inputsRead({ principal, conditions }: Pick<PolicyJson, "principal" | "conditions">): readonly string[] {
  const names = new Set<string>();
  if (principal.op !== "All" && !(principal.op === "is" && principal.in === undefined)) readIdentity(names);
  for (const { body } of conditions) readExpression(body, names);
  return joinInputs([[...names]]);
}

/** Names that are in any of the lists, sorted. Single attributes go where all are named. */
export function joinInputs(lists: readonly (readonly string[])[]): readonly string[] {
  const names = new Set(lists.flat());
  const allAttributes = names.has("attributes");
  return [...names].filter((name) => !(allAttributes && name.startsWith(attributePrefix))).sort();
}

type Node = Readonly<Record<string, unknown>>;

function readExpression(expression: unknown, names: Set<string>): void {
  const path = pathOf(expression);
  const [operator = "", operand] = Object.entries(expression as Node)[0] ?? [];
  if (path !== undefined) readPath(path, names);
  else if (operator === "has") readPresence(operand as Node, names);
  else if (operator === "hasTag" || operator === "getTag") readTag(operand as Node, names);
  else {
    const operands = operandsOf(operator, operand);
    if (operands === undefined) readEverything(names);
    else for (const child of operands) readExpression(child, names);
  }
}

const operators: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(
    [
      ...["==", "!=", "in", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*"],
      ...["contains", "containsAll", "containsAny"],
    ].map((operator) => [operator, ["left", "right"]]),
  ),
  "!": ["arg"],
  neg: ["arg"],
  isEmpty: ["arg"],
  like: ["left"],
  is: ["left", "in"],
  "if-then-else": ["if", "then", "else"],
};

/** Expressions within an operator's; undefined where the operator is none that we know. */
function operandsOf(operator: string, operand: unknown): readonly unknown[] | undefined {
  if (operator === "Value") return [];
  if (Array.isArray(operand)) return operand; // a set, or the arguments of a function such as decimal(…)
  if (operator === "Record") return Object.values(operand as Node);
  // Not among them: access to a member of what is no plain path, such as `(if … then … else …).scopes`.
  const names = Object.hasOwn(operators, operator) ? operators[operator] : undefined;
  return names?.flatMap((name) => (operand as Node)[name] ?? []);
}

/** `principal.scopes` and the like as `["principal", "scopes"]`; undefined where the expression is no such chain. */
function pathOf(expression: unknown): readonly string[] | undefined {
  const node = expression as {
    readonly Var?: string;
    readonly "."?: { readonly left: unknown; readonly attr: string };
  };
  if (node.Var !== undefined) return [node.Var];
  if (node["."] === undefined) return undefined;
  const left = pathOf(node["."].left);
  return left === undefined ? undefined : [...left, node["."].attr];
}

function readPath(path: readonly string[], names: Set<string>): void {
  const joined = path.join(".");
  if (joined === "resource" || joined === "action") return; // the one is constant, the other is part of the key
  const found = inputNamesAt(joined);
  if (joined === "principal")
    readIdentity(names); // entities are compared by id alone
  else if (found.length === 0) readEverything(names);
  else for (const name of found) names.add(name);
}

function readPresence(node: Node, names: Set<string>): void {
  const path = pathOf(node.left);
  if (path === undefined) readEverything(names);
  else readPath([...path, ...[node.attr as string | readonly string[]].flat()], names);
}

function readTag(node: Node, names: Set<string>): void {
  const key = (node.right as { readonly Value?: unknown }).Value;
  if (pathOf(node.left)?.join(".") !== "context.claimed.attributes") readEverything(names);
  else if (typeof key === "string") names.add(`${attributePrefix}${key}`);
  else {
    names.add("attributes");
    readExpression(node.right, names);
  }
}

function readIdentity(names: Set<string>): void {
  names.add("caller.tenant_id");
  names.add("caller.principal_id");
}

function readEverything(names: Set<string>): void {
  for (const name of allInputNames) names.add(name);
}
