/**
 * Whether a permit counts where the question is about somebody else than the caller. An enforcement point's own rights never
 * become its subject's, so a permit that was written for callers says nothing about whom they ask for: it counts only where
 * every way in which it can apply reads `context.on_behalf_of`. Decided from the syntax tree alone, never too generously:
 *
 * - the type, the id or a property is a reading; that somebody is asked for at all is none, nor is the context as a whole;
 * - each side of an `||` must read it, and each branch of an `if`; of an `&&` one is enough;
 * - what only a question about the caller itself can meet, such as `!(context has on_behalf_of)`, need not.
 */
import type { Expr, PolicyJson } from "@cedar-policy/cedar-wasm/nodejs";
import { pathOf } from "./reads.ts";

/** Whether the policy counts for a question about somebody else. Forbids always do. */
export function countsOnBehalfOf({ effect, conditions }: Pick<PolicyJson, "effect" | "conditions">): boolean {
  return effect === "forbid" || conditions.some(({ kind, body }) => reads(body, kind === "unless"));
}

/** Whether the expression, or its negation, never holds without a reading. */
function reads(expression: Expr, isNegated: boolean): boolean {
  const [operator = "", operand] = Object.entries(expression)[0] ?? [];
  const { left, right, arg } = operand as { readonly left?: Expr; readonly right?: Expr; readonly arg?: Expr };
  if (operator === "!" && arg !== undefined) return reads(arg, !isNegated);
  if ((operator === "&&" || operator === "||") && left !== undefined && right !== undefined) {
    const sides = [left, right].map((side) => reads(side, isNegated));
    return (operator === "&&") === isNegated ? sides.every(Boolean) : sides.some(Boolean);
  }
  if (operator === "if-then-else") {
    const { if: condition, then, else: otherwise } = operand as Readonly<Record<"if" | "then" | "else", Expr>>;
    return reads(then, isNegated) && (isPresenceTest(condition) || reads(otherwise, isNegated));
  }
  if (operator === "Value" && typeof operand === "boolean") return operand === isNegated;
  if (isPresenceTest(expression)) return isNegated;
  return isReadIn(expression) && !choosesIn(expression);
}

/** Whether a member of `context.on_behalf_of` stands in the expression, however it is compared there. */
function isReadIn(node: unknown): boolean {
  if (typeof node !== "object" || node === null) return false;
  const [variable, record, ...members] = pathOf(node) ?? testedPath(node) ?? [];
  if (variable === "context" && record === "on_behalf_of" && members.length > 0) return true;
  return Object.values(node).some(isReadIn);
}

/** Whether parts of the expression may go unread: there, nothing is known of what it depends on. */
function choosesIn(node: unknown): boolean {
  if (typeof node !== "object" || node === null) return false;
  return Object.entries(node).some(
    ([operator, operand]) => ["&&", "||", "if-then-else"].includes(operator) || choosesIn(operand),
  );
}

/** `context has on_behalf_of`. */
function isPresenceTest(expression: Expr): boolean {
  return testedPath(expression)?.join(".") === "context.on_behalf_of";
}

/** What a `has` asks for; undefined for any other expression. */
function testedPath(node: object): readonly string[] | undefined {
  const { has } = node as { readonly has?: { readonly left: unknown; readonly attr: string | readonly string[] } };
  return has?.attr === undefined ? undefined : [...(pathOf(has.left) ?? ["?"]), ...[has.attr].flat()];
}
