/**
 * Whether a permit counts if the question is about another subject than the caller. An enforcement point's own rights
 * never become its subject's, so a permit written for callers does not apply to their subjects: it counts only if,
 * whatever the rest of the request contains, its conditions on `context.on_behalf_of` can still prevent it from
 * permitting.
 *
 * The conditions are one formula over comparisons, so that `a && b` and `if a then b else false` are equal. A
 * comparison of a member with something else depends on the subject, and on other comparisons of the member with texts
 * as far as these are related. Everything else may be true or false, as is worst for the permit; so may a comparison that
 * is not recognised here, such as one of a member with itself.
 */
import { isLike } from "../../base/text-forms.ts";
import { type Binary, type Expression, isBinary, operandsOf, type Program } from "../evaluate/program.ts";
import { pathOf } from "./reads.ts";

/** Whether the policy counts in questions about another subject. Forbids always do. */
export function countsOnBehalfOf({ forbids, conditions }: Pick<Program, "forbids" | "conditions">): boolean {
  if (forbids) return true;
  return JSON.stringify(conditions).includes("on_behalf_of") && new Formula().countsIf(conditions);
}

/** Steps after which a formula is too large to be checked. Thousands of names in one list take fewer. */
const maximumSteps = 100_000;
/** Comparisons with texts after which their relations are left out: there are as many as pairs. */
const maximumRelated = 16;

/** A reduced ordered binary decision diagram. */
type Diagram = boolean | Choice;
interface Choice {
  readonly id: number;
  readonly variable: number;
  readonly then: Diagram;
  readonly else: Diagram;
}

class Formula {
  /** Numbers of comparisons: positive if they depend on the subject; negative for all others, which come first. */
  readonly #variables = new Map<string, number>();
  readonly #choices = new Map<string, Choice>();
  readonly #results = new Map<string, Diagram>();
  /** Comparisons of members of the subject with a text, or with texts between wildcards. */
  readonly #compared: { readonly member: string; readonly texts: readonly string[]; readonly holds: Diagram }[] = [];
  #steps = 0;

  /** Whether no path that ignores the subject leads to `true`. */
  countsIf(conditions: readonly Expression[]): boolean {
    const clauses = conditions.map((condition) => this.#of(condition));
    const seen = new Set<Diagram>();
    const permitsAnyone = (diagram: Diagram): boolean => {
      if (typeof diagram === "boolean") return diagram;
      if (diagram.variable > 0 || seen.has(diagram)) return false;
      seen.add(diagram);
      return permitsAnyone(diagram.then) || permitsAnyone(diagram.else);
    };
    const permits = this.#all(clauses);
    return !permitsAnyone(this.#choose(this.#relations(), permits, true)) && this.#steps <= maximumSteps;
  }

  /** What comparisons of one member say of each other: a text like `ab*` is like `a*` too, and `b` is neither. */
  #relations(): Diagram {
    if (this.#compared.length > maximumRelated) return true;
    const relations = this.#compared.flatMap((one) =>
      this.#compared.flatMap((other) => {
        if (one === other || one.member !== other.member) return [];
        if (isLike(one.texts.join(anyText), other.texts)) return [this.#choose(one.holds, other.holds, true)];
        return one.texts.length > 1 ? [] : [this.#choose(one.holds, this.#not(other.holds), true)];
      }),
    );
    return this.#all(relations);
  }

  #of(expression: Expression): Diagram {
    const [operator, operand] = expression;
    if (operator === "value" && typeof operand === "boolean") return operand;
    if (operator === "has" && isPresenceTest(expression)) return true;
    if (operator === "!") return this.#not(this.#of(expression[1]));
    if (operator === "&&") return this.#all(operandsOf(expression).map((it) => this.#of(it)));
    if (operator === "||") return this.#any(operandsOf(expression).map((it) => this.#of(it)));
    if (operator === "if")
      return this.#choose(this.#of(expression[1]), this.#of(expression[2]), this.#of(expression[3]));
    if (operator === "like" && expression.length === 3)
      return this.#equality(simplified(expression[1]), ["value", expression[2] as string]);
    return isBinary(expression)
      ? this.#binary(expression[0], simplified(expression[1]), simplified(expression[2]))
      : this.#comparison(expression);
  }

  #binary(operator: Binary, a: Expression, b: Expression): Diagram {
    if (operator === "==") return this.#equality(a, b);
    if (operator === "!=") return this.#not(this.#equality(a, b));
    if (operator === "contains" && isOfNoSubject(a, b)) return false;
    const [ofA, ofB] = [listed(a), listed(b)];
    if (operator === "contains" && ofA) return this.#any(ofA.map((item) => this.#equality(item, b)));
    const holds = (item: Expression, of: Expression) => this.#of(["contains", of, item]);
    if (operator === "containsAll" && ofB) return this.#all(ofB.map((item) => holds(item, a)));
    if (operator === "containsAny" && (ofB ?? ofA))
      return this.#any((ofB ?? ofA ?? []).map((it) => holds(it, ofB ? a : b)));
    return this.#comparison([operator, a, b]);
  }

  #not(diagram: Diagram): Diagram {
    return this.#choose(diagram, false, true);
  }

  #equality(a: Expression, b: Expression): Diagram {
    if (isOfNoSubject(a, b) || isOfNoSubject(b, a)) return false;
    const [left, right] = sorted([a, b]) as [Expression, Expression];
    if (!isTruth(a) && !isTruth(b)) return this.#comparison(["==", left, right]);
    return this.#choose(this.#of(a), this.#of(b), this.#not(this.#of(b)));
  }

  #comparison(expression: Expression): Diagram {
    const written = JSON.stringify(expression[0] === "like" ? withoutRepeatedWildcards(expression) : expression);
    // A number that JavaScript rounds is equal to no other.
    const name = /"value",-?\d{16}/.test(written) ? `${written} ${this.#variables.size}` : written;
    const unused = (this.#variables.size + 1) * (dependsOnSubject(expression) ? 1 : -1);
    const variable = this.#variables.get(name) ?? unused;
    this.#variables.set(name, variable);
    const holds = this.#choice(variable, true, false);
    const texts = variable === unused && variable > 0 ? textsOf(expression) : undefined;
    if (texts !== undefined) this.#compared.push({ member: JSON.stringify(expression[1]), texts, holds });
    return holds;
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

/** Whether it compares a member of the subject with something other than itself, in a recognised form. */
function dependsOnSubject(expression: Expression): boolean {
  // The only entity of a subject, that of its properties, has one name.
  if (["has", "is", "in", "path"].includes(expression[0]) || isAnyText(expression)) return false;
  const operands = operandsOf(expression);
  const isApart = new Set(operands.map((it) => JSON.stringify(it))).size === operands.length;
  return isApart && operands.some(isMember) && operands.every((it) => isMember(it) || !isReadIn(it));
}

/** Whether the value is a member of the subject, or the result of a function or a tag of one. */
function isMember(expression: Expression): boolean {
  if (isPathOfMember(expression)) return true;
  const isMade = expression[0] === "getTag" || expression[0] === "call";
  const read = isMade ? operandsOf(expression).filter(isReadIn) : [];
  return read.length === 1 && read.every(isMember);
}

/** Whether the expression contains a member of the subject. */
function isReadIn(expression: Expression): boolean {
  return expression[0] === "unknown" || isPathOfMember(expression) || operandsOf(expression).some(isReadIn);
}

function isPathOfMember(expression: Expression): boolean {
  return pathOf(expression)?.startsWith("context.on_behalf_of.") ?? false;
}

/**
 * Paths for which `has` is always true in a question about another subject: the record, and its members that
 * `schema.ts` requires.
 */
const presentPaths: readonly string[] = ["", ".type", ".id", ".properties", ".property_values"].map(
  (member) => `context.on_behalf_of${member}`,
);

function isPresenceTest([, of, ...names]: Expression): boolean {
  return presentPaths.includes([pathOf(of as Expression) ?? "?", ...names].join("."));
}

/** Whether no subject has the text in this member: types and ids are not empty, and property values have a `=`. */
function isOfNoSubject(member: Expression, [operator, text]: Expression): boolean {
  if (operator !== "value" || typeof text !== "string") return false;
  const path = pathOf(member);
  if (path === "context.on_behalf_of.property_values") return !text.includes("=");
  return text === "" && (path === "context.on_behalf_of.type" || path === "context.on_behalf_of.id");
}

/** Texts that a member is compared with; one if there is no wildcard. Undefined for other comparisons. */
function textsOf(expression: Expression): readonly string[] | undefined {
  if (expression[0] === "like") return expression.slice(2) as string[];
  const [operator, text] = operandsOf(expression)[1] ?? [];
  return expression[0] === "==" && operator === "value" && typeof text === "string" ? [text] : undefined;
}

/** Stands for what a wildcard matches: no text in a policy has it. */
const anyText = "\ud800";

/** Whether it is a `like` of wildcards only. */
function isAnyText(expression: Expression): boolean {
  return expression[0] === "like" && expression.length > 3 && expression.slice(2).every((text) => text === "");
}

/** The same pattern, in which no text between two wildcards is empty. */
function withoutRepeatedWildcards([, left, first = "", ...others]: Like): Expression {
  const last = others.pop() ?? "";
  return ["like", left, first, ...others.filter((text) => text !== ""), last];
}

type Like = readonly ["like", Expression, ...string[]];

/** A member of a literal record is its value. */
function simplified(expression: Expression): Expression {
  if (expression[0] !== ".") return expression;
  const [, left, name] = expression;
  const record = simplified(left);
  const member = record[0] === "record" ? record[1].find(([own]) => own === name) : undefined;
  return member === undefined ? expression : simplified(member[1]);
}

/** Members of a literal set, in an order that does not depend on the author's. */
function listed(expression: Expression): readonly Expression[] | undefined {
  return expression[0] === "set" ? sorted(expression[1]) : undefined;
}

function sorted(expressions: readonly Expression[]): readonly Expression[] {
  const named = expressions.map((expression) => [JSON.stringify(expression), expression] as const);
  return named.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, expression]) => expression);
}

const truths: readonly string[] = [
  ...["!", "&&", "||", "==", "!=", "<", "<=", ">", ">=", "in", "is", "like", "has", "hasTag"],
  ...["contains", "containsAll", "containsAny", "isEmpty"],
];

/** Whether the value is known to be a boolean. */
function isTruth([operator, operand]: Expression): boolean {
  return truths.includes(operator) || typeof operand === "boolean";
}
