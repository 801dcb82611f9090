/** Finds which inputs policies compare, and with which values: a few values of each then represent all. */
import { parseJson } from "../../base/json.ts";
import { type Expression, isExact, operandsOf, type Program } from "../evaluate/program.ts";
import type { PolicyAction } from "../model/decision.ts";
import type { EntityReference } from "../model/entities.ts";
import type { Input, InputCatalogue } from "../model/inputs.ts";
import { policyActions } from "../model/schema.ts";
import type { CheckedPolicy } from "./check-set.ts";
import { entityIds, entityUse, pathOf } from "./reads.ts";

/** Ids of entities by the full name of their type. */
export type KnownEntities = ReadonlyMap<string, readonly string[]>;

/** An input, or one attribute of a request. */
interface Term extends Pick<Input, "name" | "optional" | "words" | "least" | "mayBeEmpty"> {
  readonly kind: Exclude<Input["kind"], "tags">;
}

/**
 * What the policy compares.
 *
 * @param known entities that represent all
 */
export function comparisonsOf(
  { program }: Pick<CheckedPolicy, "program">,
  catalogue: InputCatalogue,
  known: KnownEntities,
): Comparisons {
  return new Comparisons(parseJson(program) as Program, catalogue, known);
}

class Comparisons {
  readonly terms = new Map<string, Term>();
  /** Texts and numbers that the term is compared with, or that a set is tested for. */
  readonly values = new Map<string, Set<string | number>>();
  /** Texts between wildcards. */
  readonly patterns = new Map<string, (readonly string[])[]>();
  /** Named principals: `tenant/principal`. */
  readonly principals = new Set<string>();
  /** Whether a few values represent all. They do not for a pattern, or for inputs that are compared with each other. */
  isExact = true;
  readonly #catalogue: InputCatalogue;

  constructor({ scope, conditions }: Program, catalogue: InputCatalogue, known: KnownEntities) {
    this.#catalogue = catalogue;
    for (const condition of [...scope, ...conditions]) this.#condition(condition);
    const { references } = entityUse({ conditions }, catalogue);
    for (const reference of catalogue.references) {
      if (references.includes(reference.path)) this.#reference(reference, known.get(reference.type) ?? []);
    }
  }

  /** Entities with different names may differ in any way. */
  #reference({ kind, reads }: EntityReference, ids: readonly string[]): void {
    this.isExact = false;
    if (kind === "principal") {
      this.#know(identity);
      for (const id of ids) this.principals.add(id);
      return;
    }
    for (const input of this.#catalogue.inputs.filter(({ name }) => reads.includes(name))) {
      const term = this.#termAt(input);
      if (term !== undefined) for (const id of ids) this.#note(term, id);
    }
  }

  #condition(expression: Expression): void {
    const [operator] = expression;
    const parts = operandsOf(expression);
    const isJoined = comparisons.has(operator) && parts.every(isCondition);
    if (connectives.has(operator) || isJoined) for (const part of parts) this.#condition(part);
    else if (operator === "has") this.#presence(expression[1], expression.slice(2) as string[]);
    else this.#comparison(expression);
  }

  /** Each of its inputs may be compared with each of its literals. */
  #comparison(expression: Expression): void {
    const terms: Term[] = [];
    const literals: (string | number)[] = [];
    const visit = (part: Expression): void => {
      const term = this.#termOf(part);
      if (term !== undefined) terms.push(term);
      else if (part[0] === "value" && typeof part[1] !== "boolean") literals.push(part[1]);
      else for (const operand of operandsOf(part)) visit(operand);
    };
    visit(expression);
    for (const term of terms) for (const literal of literals) this.#note(term, literal);
    if (expression[0] === "like") {
      const pattern = expression.slice(2) as string[];
      for (const { name } of terms) this.patterns.set(name, [...(this.patterns.get(name) ?? []), pattern]);
    }
    for (const id of entityIds("Principal", [expression])) this.principals.add(id);
    if (readsIdentity(expression)) this.#know(identity);
    if (!this.#isSimple(expression)) this.isExact = false;
  }

  #presence(of: Expression, names: readonly string[]): void {
    const path = [pathOf(of) ?? "?", ...names].join(".");
    if (this.#termAt(this.#catalogue.inputAt(path)) === undefined && !alwaysThere.has(path)) this.isExact = false;
  }

  /** Whether it is an input, compares one with literals, or is about identities alone. */
  #isSimple(expression: Expression): boolean {
    const isTerm = (part: Expression | undefined) => part !== undefined && this.#termOf(part) !== undefined;
    const [operator] = expression;
    const [left, right] = operandsOf(expression);
    if (isTerm(expression) || isAboutIdentity(expression)) return true;
    if (operator === "isEmpty") return isTerm(left);
    return comparisons.has(operator) && (isTerm(left) ? isLiteral(right) : isTerm(right) && isLiteral(left));
  }

  #note(term: Term, literal: string | number): void {
    const values = this.values.get(term.name) ?? new Set();
    this.values.set(term.name, values.add(literal));
  }

  /** Registers the term that the expression reads; undefined if it is not one. */
  #termOf(expression: Expression): Term | undefined {
    if (expression[0] !== "getTag" && expression[0] !== "hasTag")
      return this.#termAt(this.#catalogue.inputAt(pathOf(expression)));
    const [, of, key] = expression;
    const tags = this.#catalogue.inputAt(pathOf(of));
    if (tags === undefined || key[0] !== "value" || typeof key[1] !== "string") return undefined;
    return this.#know({ name: `${tags.name}.${key[1]}`, kind: "text", optional: true, mayBeEmpty: true });
  }

  /** Registers the input; undefined for tags, of which each is a term. */
  #termAt(input: Input | undefined): Term | undefined {
    return input === undefined || input.kind === "tags" ? undefined : this.#know({ ...input, kind: input.kind });
  }

  #know(found: Term & Pick<Input, "comesWithRecord">): Term {
    const { name } = found;
    // A present record always has some of its members.
    const term = this.terms.get(name) ?? { ...found, optional: found.optional && !found.comesWithRecord };
    this.terms.set(name, term);
    const record = this.#catalogue.inputs.find((input) => input.kind === "record" && name.startsWith(`${input.name}.`));
    if (record !== undefined) this.terms.set(record.name, { name: record.name, kind: "record", optional: true });
    return term;
  }
}

/** Records that every request has. */
const alwaysThere = new Set(["claimed", "claimed.workload", "claimed.resource"].map((path) => `context.${path}`));

const identity: Term = { name: "caller.principal_id", kind: "text", optional: false };

const connectives = new Set(["&&", "||", "!", "if"]);
const comparisons = new Set(["==", "!=", "<", "<=", ">", ">=", "contains", "containsAll", "containsAny"]);

function isCondition([operator, operand]: Expression): boolean {
  return connectives.has(operator) || comparisons.has(operator) || typeof operand === "boolean";
}

/** Actions and the resource are constant for one action. */
const variables: ReadonlySet<string | undefined> = new Set(["action", "resource", "principal"]);

/** Whether it is about entities alone, independent of the request's inputs. */
function isAboutIdentity(expression: Expression): boolean {
  const [operator] = expression;
  if (operator === "path") return variables.has(pathOf(expression));
  const isOfEntities = ["value", "entity", "set", "in", "is"].includes(operator) || comparisons.has(operator);
  return isOfEntities && operandsOf(expression).every(isAboutIdentity);
}

function readsIdentity(expression: Expression): boolean {
  const [operator, type] = expression;
  if (operator === "entity") return type === "Principal";
  return pathOf(expression) === "principal" || operandsOf(expression).some(readsIdentity);
}

function isLiteral(expression: Expression | undefined): boolean {
  if (expression?.[0] === "set") return expression[1].every(isLiteral);
  return expression?.[0] === "value" && isExact(expression);
}

// Questions that distinguish policies: built from compared values, values next to those, and others.

export type Value = string | number | boolean | undefined;

/** A scalar, or whether a set has a member. The first value is an unremarkable one. */
export interface Variable {
  readonly term: string;
  /** Member of the set. */
  readonly member?: string;
  /** Whether there is a set. */
  readonly isSet?: true;
  readonly values: readonly Value[];
}

/** A variable, and those of its values that a policy tests for. */
export interface AskedVariable extends Variable {
  readonly telling: readonly Value[];
}

/** A text that no policy names. */
export const usualText = "anything-else";

/** Returns the compared values, values next to them, and an unremarkable one, which comes first. */
export function variablesOf({ terms, values, patterns, principals }: Comparisons): readonly AskedVariable[] {
  const variables = [...terms.values()].flatMap((term): readonly AskedVariable[] => {
    const own = [...(values.get(term.name) ?? [])];
    const texts = [
      ...own.filter((value) => typeof value === "string"),
      ...(patterns.get(term.name) ?? []).flatMap(textsLike),
    ];
    return variablesOfTerm(
      term,
      texts,
      own.filter((value) => typeof value === "number"),
    );
  });
  const named = [...principals].map((uid) => {
    const end = uid.indexOf("/"); // of the tenant; the principal's own id may have slashes too
    return [uid.slice(0, end), uid.slice(end + 1)] as const;
  });
  if (named.length === 0) return variables;
  const ids = (term: string, telling: readonly string[]) => ({ term, telling, values: [usualText, ...telling] });
  return [
    ...variables.filter(({ term }) => term !== identity.name || values.has(term) || patterns.has(term)),
    ids(
      "caller.tenant_id",
      named.map(([tenant]) => tenant),
    ),
    ids(
      "caller.principal_id",
      named.map(([, id]) => id),
    ),
  ];
}

function variablesOfTerm(
  { name, kind, optional, words, least, mayBeEmpty }: Term,
  texts: readonly string[],
  points: readonly number[],
): readonly AskedVariable[] {
  const absent: readonly Value[] = optional ? [undefined] : [];
  const scalar = (telling: readonly Value[], others: readonly Value[]) => [
    { term: name, telling, values: [...absent, ...others, ...telling] },
  ];
  switch (kind) {
    case "record":
      return scalar([true], []);
    case "yes_no":
      return scalar([true, false], []);
    case "whole_number": {
      const near = points.flatMap((point) => [point, point - 1, point + 1]);
      const possible = near.filter((value) => Number.isSafeInteger(value) && (least === undefined || value >= least));
      return scalar([...possible, 1], [0]);
    }
    case "text": {
      if (words !== undefined) return scalar(words, []);
      const telling = texts.filter((text) => text !== "" || mayBeEmpty);
      return scalar(telling.length === 0 ? [usualText] : telling, [usualText, ...telling.map((text) => `${text}-`)]);
    }
    case "set_of_text": {
      const members = [...new Set(texts)].filter((text) => text !== "" || mayBeEmpty);
      const presence = optional
        ? [{ term: name, isSet: true as const, telling: [true], values: [undefined, true] }]
        : [];
      return [
        ...presence,
        ...[usualText, ...members].map((member) => ({ term: name, member, telling: [true], values: [false, true] })),
      ];
    }
  }
}

/** Matching texts, and a near miss. */
function textsLike(pattern: readonly string[]): readonly string[] {
  const shortest = pattern.join("");
  return [shortest, pattern.join("-"), shortest.slice(0, -1)];
}

/** Merges variables of several policies, each with the values of all. */
export function merged(variables: readonly AskedVariable[]): readonly AskedVariable[] {
  const byName = new Map<string, AskedVariable>();
  for (const { values, telling, ...variable } of variables) {
    const name = nameOf({ ...variable, values });
    const known = byName.get(name);
    const union = (one: readonly Value[], other: readonly Value[]) => [...new Set([...one, ...other])];
    byName.set(name, {
      ...variable,
      values: union(known?.values ?? [], values),
      telling: union(known?.telling ?? [], telling),
    });
  }
  return [...byName.values()];
}

export function nameOf({ term, member }: Variable): string {
  return JSON.stringify([term, member]);
}

/** Pseudorandom draws, determined by the seed (mulberry32): whole numbers below a limit, items and actions. */
export function draws(seed: number) {
  let state = seed;
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
  };
  const pick = <Item>(from: readonly Item[]): Item => from[below(from.length)] as Item;
  /** Mostly one that the scope of a policy admits. */
  const pickAction = (admitted: ReadonlySet<PolicyAction> = new Set()): PolicyAction =>
    pick(admitted.size === 0 || below(8) === 0 ? policyActions : [...admitted]);
  return { below, pick, pickAction };
}
