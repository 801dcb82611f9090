/** What would make a condition hold, in words: `principal.scopes to contain "keys.read"`. */
import type { Expr } from "@cedar-policy/cedar-wasm/nodejs";
import { expressionText } from "./conditions.ts";

/** Completes "needs …". Where there are no words for it, the condition itself, as Cedar writes it. */
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
  // A list that is written out holds what is looked for, not the other way round.
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
