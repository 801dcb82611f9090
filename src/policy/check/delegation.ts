/**
 * Whether a permit counts if the question is about another subject than the caller. An enforcement point's own rights
 * never become its subject's, so a permit written for callers does not apply to their subjects: it counts only if,
 * whatever the rest of the request contains, its conditions on `context.on_behalf_of` can still prevent it from
 * permitting.
 *
 * The conditions are one formula over comparisons, so that `a && b` and `if a then b else false` are equal. A
 * comparison of a member with something else depends on the subject, each by itself. Everything else may be true or
 * false, as is worst for the permit; so may a comparison that is not recognised here, such as one of a member with
 * itself.
 */
import type { Expr, PatternElem, PolicyJson } from "@cedar-policy/cedar-wasm/nodejs";
import { pathOf } from "./reads.ts";

/** Whether the policy counts in questions about another subject. Forbids always do. */
export function countsOnBehalfOf({ effect, conditions }: Pick<PolicyJson, "effect" | "conditions">): boolean {
  if (effect === "forbid") return true;
  return JSON.stringify(conditions).includes("on_behalf_of") && new Formula().countsIf(conditions);
}

/** Steps after which a formula is too large to be checked. Thousands of names in one list take fewer. */
const maximumSteps = 100_000;

/** A reduced ordered binary decision diagram. */
type Diagram = boolean | Choice;
interface Choice {
  readonly id: number;
  readonly variable: number;
  readonly then: Diagram;
  readonly else: Diagram;
}

type Operands = Readonly<Record<string, Expr>>;

class Formula {
  /** Numbers of comparisons: positive if they depend on the subject; negative for all others, which come first. */
  readonly #variables = new Map<string, number>();
  readonly #choices = new Map<string, Choice>();
  readonly #results = new Map<string, Diagram>();
  #steps = 0;

  /** Whether no path that ignores the subject leads to `true`. */
  countsIf(conditions: PolicyJson["conditions"]): boolean {
    const clauses = conditions.map(({ kind, body }) => this.#choose(this.#of(body), kind === "when", kind !== "when"));
    const seen = new Set<Diagram>();
    const permitsAnybody = (diagram: Diagram): boolean => {
      if (typeof diagram === "boolean") return diagram;
      if (diagram.variable > 0 || seen.has(diagram)) return false;
      seen.add(diagram);
      return permitsAnybody(diagram.then) || permitsAnybody(diagram.else);
    };
    return !permitsAnybody(this.#all(clauses)) && this.#steps <= maximumSteps;
  }

  #of(expression: Expr): Diagram {
    const [operator, operand] = partsOf(expression);
    const { left, right, arg, if: condition, then, else: otherwise } = operand as Operands;
    if (operator === "Value" && typeof operand === "boolean") return operand;
    if (operator === "has" && isPresenceTest(operand)) return true;
    if (operator === "!" && arg) return this.#choose(this.#of(arg), false, true);
    if (condition && then && otherwise) return this.#choose(this.#of(condition), this.#of(then), this.#of(otherwise));
    const parts = partsOfLike(expression);
    if (left && parts?.every((it) => it !== undefined))
      return this.#equality(simplified(left), { Value: parts.join("") });
    if (left === undefined || right === undefined) return this.#comparison(expression);
    if (operator === "&&") return this.#all([this.#of(left), this.#of(right)]);
    if (operator === "||") return this.#any([this.#of(left), this.#of(right)]);
    const [a, b] = [simplified(left), simplified(right)];
    if (operator === "==") return this.#equality(a, b);
    if (operator === "!=") return this.#choose(this.#equality(a, b), false, true);
    const [ofA, ofB] = [listed(a), listed(b)];
    if (operator === "contains" && ofA) return this.#any(ofA.map((item) => this.#equality(item, b)));
    const holds = (item: Expr, of: Expr) => this.#of({ contains: { left: of, right: item } });
    if (operator === "containsAll" && ofB) return this.#all(ofB.map((item) => holds(item, a)));
    if (operator === "containsAny" && (ofB ?? ofA))
      return this.#any((ofB ?? ofA ?? []).map((it) => holds(it, ofB ? a : b)));
    return this.#comparison({ [operator]: { left: a, right: b } } as unknown as Expr);
  }

  #equality(a: Expr, b: Expr): Diagram {
    const [left, right] = sorted([a, b]) as [Expr, Expr];
    if (!isTruth(a) && !isTruth(b)) return this.#comparison({ "==": { left, right } });
    return this.#choose(this.#of(a), this.#of(b), this.#choose(this.#of(b), false, true));
  }

  #comparison(expression: Expr): Diagram {
    const written = JSON.stringify(expression).replace(/("Wildcard",)+(?="Wildcard")/g, "");
    // A number that JavaScript rounds is equal to no other.
    const name = /"Value":-?\d{16}/.test(written) ? `${written} ${this.#variables.size}` : written;
    const unused = (this.#variables.size + 1) * (dependsOnSubject(expression) ? 1 : -1);
    const variable = this.#variables.get(name) ?? unused;
    this.#variables.set(name, variable);
    return this.#choice(variable, true, false);
  }

  /** From the end, so that diagrams in the order of their variables are joined at once. */
  #all(diagrams: readonly Diagram[]): Diagram {
    return diagrams.reduceRight((rest, it) => this.#choose(it, rest, false), true);
  }

  #any(diagrams: readonly Diagram[]): Diagram {
    return diagrams.reduceRight((rest, it) => this.#choose(it, true, rest), false);
  }

  #choose(condition: Diagram, then: Diagram, otherwise: Diagram): Diagram {
    if (typeof condition === "boolean") return condition ? then : otherwise;
    const parts = [condition, then, otherwise];
    const key = keyOf(parts);
    const known = this.#results.get(key);
    if (known !== undefined) return known;
    if (++this.#steps > maximumSteps) return true;
    const variable = Math.min(...parts.map((it) => (typeof it === "boolean" ? Number.POSITIVE_INFINITY : it.variable)));
    const under = (branch: "then" | "else") =>
      this.#choose(
        ...(parts.map((it) => (typeof it === "boolean" || it.variable !== variable ? it : it[branch])) as [
          Diagram,
          Diagram,
          Diagram,
        ]),
      );
    const result = this.#choice(variable, under("then"), under("else"));
    this.#results.set(key, result);
    return result;
  }

  #choice(variable: number, then: Diagram, otherwise: Diagram): Diagram {
    if (then === otherwise) return then;
    const key = `${variable} ${keyOf([then, otherwise])}`;
    const choice = this.#choices.get(key) ?? { id: this.#choices.size, variable, then, else: otherwise };
    this.#choices.set(key, choice);
    return choice;
  }
}

function keyOf(diagrams: readonly Diagram[]): string {
  return diagrams.map((it) => (typeof it === "boolean" ? it : it.id)).join();
}

function partsOf(expression: Expr): readonly [operator: string, operand: unknown] {
  return Object.entries(expression)[0] ?? ["", undefined];
}

/** Whether it compares a member of the subject with something other than itself, in a recognised form. */
function dependsOnSubject(expression: Expr): boolean {
  const [operator, operand] = partsOf(expression);
  const parts = partsOfLike(expression);
  if (operator === "has" || operator === "is" || parts?.every((it) => it === undefined)) return false;
  const { pattern: _, ...compared } = operand as Operands;
  const operands = Object.values(compared);
  const isApart = new Set(operands.map((it) => JSON.stringify(it))).size === operands.length;
  return isApart && operands.some(isMember) && operands.every((it) => isMember(it) || !isReadIn(it));
}

/** Whether the value is a member of the subject, or the result of a function or a tag of one. */
function isMember(expression: Expr): boolean {
  if (isPathOfMember(expression)) return true;
  const [operator, operand] = partsOf(expression);
  const isMade = operator === "getTag" || (Array.isArray(operand) && operator !== "Set");
  const read = isMade ? Object.values(operand as Operands).filter(isReadIn) : [];
  return read.length === 1 && read.every(isMember);
}

/** Whether the expression contains a member of the subject. */
function isReadIn(node: unknown): boolean {
  return typeof node === "object" && node !== null && (isPathOfMember(node) || Object.values(node).some(isReadIn));
}

function isPathOfMember(expression: object): boolean {
  const path = pathOf(expression) ?? [];
  return path.length > 2 && path[0] === "context" && path[1] === "on_behalf_of";
}

/**
 * Paths for which `has` is always true in a question about another subject: the record, and its members that
 * `schema.ts` requires.
 */
const presentPaths: readonly string[] = ["", ".type", ".id", ".properties", ".property_values"].map(
  (member) => `context.on_behalf_of${member}`,
);

function isPresenceTest(operand: unknown): boolean {
  const { left, attr } = operand as { readonly left: unknown; readonly attr: string | readonly string[] };
  return presentPaths.includes([...(pathOf(left) ?? ["?"]), ...[attr].flat()].join("."));
}

/** The parts of a `like`; undefined in place of any text. */
function partsOfLike(expression: Expr): readonly (string | undefined)[] | undefined {
  const { like } = expression as { readonly like?: { readonly pattern: readonly PatternElem[] } };
  return like?.pattern.map((part) => (part === "Wildcard" ? undefined : part.Literal));
}

/** A member of a literal record is its value. */
function simplified(expression: Expr): Expr {
  const [operator, operand] = partsOf(expression);
  if (operator !== ".") return expression;
  const { left, attr } = operand as { readonly left: Expr; readonly attr: string };
  const [made, record] = partsOf(simplified(left));
  const members = made === "Record" ? (record as Readonly<Record<string, Expr>>) : {};
  return Object.hasOwn(members, attr) ? simplified(members[attr] as Expr) : expression;
}

/** Members of a literal set, in an order that does not depend on the author's. */
function listed(expression: Expr): readonly Expr[] | undefined {
  const [operator, operand] = partsOf(expression);
  return operator === "Set" ? sorted(operand as readonly Expr[]) : undefined;
}

function sorted(expressions: readonly Expr[]): readonly Expr[] {
  const named = expressions.map((expression) => [JSON.stringify(expression), expression] as const);
  return named.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, expression]) => expression);
}

const truths: readonly string[] = [
  ...["!", "&&", "||", "==", "!=", "<", "<=", ">", ">=", "in", "is", "like", "has", "hasTag"],
  ...["contains", "containsAll", "containsAny", "isEmpty"],
];

/** Whether the value is known to be a boolean. */
function isTruth(expression: Expr): boolean {
  const [operator, operand] = partsOf(expression);
  return truths.includes(operator) || typeof operand === "boolean";
}
