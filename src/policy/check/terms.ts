/** Finds which inputs policies compare, and with which values: a few values of each then represent all. */
import type { Expr, PatternElem, PolicyJson } from "@cedar-policy/cedar-wasm/nodejs";
import type { EntityReference } from "../model/entities.ts";
import type { Input, InputCatalogue } from "../model/inputs.ts";
import { entityIds, entityUse, pathOf } from "./reads.ts";

/** Ids of entities by the full name of their type. */
export type KnownEntities = ReadonlyMap<string, readonly string[]>;

/** An input, or one attribute of a request. */
interface Term extends Pick<Input, "name" | "optional" | "words" | "least" | "mayBeEmpty"> {
  readonly kind: Exclude<Input["kind"], "tags">;
}

type Node = Readonly<Record<string, unknown>>;

interface Like {
  readonly left: Expr;
  readonly pattern: readonly PatternElem[];
}

export class Comparisons {
  readonly terms = new Map<string, Term>();
  /** Texts and numbers that the term is compared with, or that a set is tested for. */
  readonly values = new Map<string, Set<string | number>>();
  readonly patterns = new Map<string, (readonly PatternElem[])[]>();
  /** Named principals: `tenant/principal`. */
  readonly principals = new Set<string>();
  /** Whether a few values represent all. They do not for a pattern, or for inputs that are compared with each other. */
  isExact = true;
  readonly #catalogue: InputCatalogue;

  /** @param known entities that represent all */
  constructor({ principal, conditions }: PolicyJson, catalogue: InputCatalogue, known: KnownEntities = new Map()) {
    this.#catalogue = catalogue;
    if (principal.op !== "All") this.#identities(principal);
    for (const { body } of conditions) this.#condition(body);
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
      if (input.kind === "tags") continue;
      const term = this.#know({ ...input, kind: input.kind });
      for (const id of ids) this.#note(term, id);
    }
  }

  #condition(expression: Expr): void {
    const [operator = "", operand] = Object.entries(expression)[0] ?? [];
    const { left, right, arg } = operand as { left?: Expr; right?: Expr; arg?: Expr };
    const branches = connectives[operator];
    if (branches !== undefined) {
      for (const name of branches) this.#condition((operand as Readonly<Record<string, Expr>>)[name] as Expr);
    } else if (isAboutIdentity(operator, left, right)) {
      this.#identities(expression);
      if (!this.#isPlain(expression)) this.#unknown(expression);
    } else if (operator === "has") this.#presence(operand as Node);
    else if (operator === "hasTag") this.#scalar({ getTag: operand } as Expr, expression);
    else if (operator === "like") this.#pattern(operand as unknown as Like, expression);
    else if (operator === "isEmpty") this.#scalar(arg as Expr, expression);
    else if (comparisons.has(operator) && left !== undefined && right !== undefined) {
      this.#compare(left, right, expression);
    } else this.#scalar(expression, expression);
  }

  #compare(left: Expr, right: Expr, whole: Expr): void {
    const [a, b] = [this.#termOf(left), this.#termOf(right)];
    const literals = literalsOf(a === undefined ? left : right);
    const term = a ?? b;
    if (a !== undefined && b !== undefined) this.isExact = false;
    else if (term !== undefined && literals !== undefined) {
      for (const literal of literals) this.#note(term, literal);
    } else if (isCondition(left) && isCondition(right)) {
      this.#condition(left);
      this.#condition(right);
    } else this.#unknown(whole);
  }

  #pattern({ left, pattern }: Like, whole: Expr): void {
    this.isExact = false;
    const term = this.#termOf(left);
    if (term === undefined) this.#unknown(whole);
    else this.patterns.set(term.name, [...(this.patterns.get(term.name) ?? []), pattern]);
  }

  #presence({ left, attr }: Node): void {
    const path = [...(pathOf(left) ?? ["?"]), ...[attr as string | readonly string[]].flat()].join(".");
    const input = this.#catalogue.inputs.find((candidate) => candidate.path === path);
    if (input !== undefined && input.kind !== "tags") this.#know({ ...input, kind: input.kind });
    else if (!alwaysThere.has(path)) this.isExact = false;
  }

  /** A boolean, the presence of an attribute, or a set that may be empty. */
  #scalar(expression: Expr, whole: Expr): void {
    if (this.#termOf(expression) === undefined) this.#unknown(whole);
  }

  /** Treats an unsupported expression by the literals that it compares its inputs with. */
  #unknown(expression: Expr): void {
    this.isExact = false;
    const terms: Term[] = [];
    const literals: (string | number)[] = [];
    const visit = (node: unknown): void => {
      if (typeof node !== "object" || node === null) return;
      const term = this.#termOf(node as Expr);
      if (term !== undefined) {
        terms.push(term);
        return;
      }
      const { Value: value } = node as { readonly Value?: unknown };
      if (typeof value === "string" || typeof value === "number") literals.push(value);
      for (const child of Object.values(node)) visit(child);
    };
    visit(expression);
    for (const term of terms) for (const literal of literals) this.#note(term, literal);
  }

  #identities(part: unknown): void {
    const text = JSON.stringify(part);
    if (text.includes('"Principal"') || text.includes('"principal"')) this.#know(identity);
    for (const uid of entityIds("Principal", part)) this.principals.add(uid);
  }

  /** Whether it is about entities alone, independent of the request's inputs. */
  #isPlain(expression: Expr): boolean {
    const path = pathOf(expression)?.join(".");
    if (path !== undefined) return this.#catalogue.inputs.every((input) => input.path !== path);
    const [operator = "", operand] = Object.entries(expression)[0] ?? [];
    if (operator === "Value") return true;
    if (operator === "Set") return (operand as readonly Expr[]).every((item) => this.#isPlain(item));
    if (operator !== "in" && operator !== "is" && !comparisons.has(operator)) return false;
    const { left, right, in: within } = operand as Readonly<Record<string, Expr | undefined>>;
    return [left, right, within].every((part) => part === undefined || this.#isPlain(part));
  }

  #note(term: Term, literal: string | number): void {
    const values = this.values.get(term.name) ?? new Set();
    this.values.set(term.name, values.add(literal));
  }

  /** Registers the term that the expression reads; undefined if it is not one. */
  #termOf(expression: Expr): Term | undefined {
    const { getTag } = expression as { readonly getTag?: { readonly left: Expr; readonly right: Expr } };
    const path = pathOf(getTag === undefined ? expression : getTag.left)?.join(".");
    const input = path === undefined ? undefined : this.#catalogue.inputs.find((candidate) => candidate.path === path);
    if (input === undefined) return undefined;
    if (getTag === undefined) return input.kind === "tags" ? undefined : this.#know({ ...input, kind: input.kind });
    const [key] = literalsOf(getTag.right) ?? [];
    if (typeof key !== "string") return undefined;
    return this.#know({ name: `${input.name}.${key}`, kind: "text", optional: true, mayBeEmpty: true });
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

const connectives: Readonly<Record<string, readonly string[]>> = {
  "&&": ["left", "right"],
  "||": ["left", "right"],
  "!": ["arg"],
  "if-then-else": ["if", "then", "else"],
};
const comparisons = new Set(["==", "!=", "<", "<=", ">", ">=", "contains", "containsAll", "containsAny"]);

function isCondition(expression: Expr): boolean {
  const [operator = "", operand] = Object.entries(expression)[0] ?? [];
  return Object.hasOwn(connectives, operator) || comparisons.has(operator) || typeof operand === "boolean";
}

/** Whether it tests the identity or the ancestors of an entity; attributes of a principal are separate terms. */
function isAboutIdentity(operator: string, left: Expr | undefined, right: Expr | undefined): boolean {
  if (operator === "Value" || operator === "is" || operator === "in") return true;
  if (isConstant(left)) return true;
  return comparisons.has(operator) && [left, right].some((side) => isConstant(side) || isPrincipal(side));
}

/** Actions and the resource, which are constant for one action. */
function isConstant(expression: Expr | undefined): boolean {
  const { Var: variable } = (expression ?? {}) as { readonly Var?: string };
  return variable === "action" || variable === "resource";
}

function isPrincipal(expression: Expr | undefined): boolean {
  return (expression as { readonly Var?: string } | undefined)?.Var === "principal";
}

/** Literals of a text, a number or a set of them; undefined for other expressions. */
function literalsOf(expression: Expr): readonly (string | number)[] | undefined {
  const { Value: value, Set: items } = expression as { readonly Value?: unknown; readonly Set?: readonly Expr[] };
  if (typeof value === "string" || (typeof value === "number" && Number.isSafeInteger(value))) return [value];
  if (typeof value === "boolean") return [];
  if (Array.isArray(value)) return value.every((item) => typeof item === "string") ? value : undefined;
  const parts = items?.map(literalsOf);
  return parts?.every((part) => part !== undefined) ? parts.flat() : undefined;
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
  const named = [...principals].map((uid) => uid.split("/", 2) as [string, string]);
  if (named.length === 0) return variables;
  const ids = (term: string, telling: readonly string[]) => ({ term, telling, values: [usualText, ...telling] });
  return [
    ...variables.filter(({ term }) => term !== "caller.principal_id"),
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
function textsLike(pattern: readonly PatternElem[]): readonly string[] {
  const filled = (filling: string) => pattern.map((part) => (part === "Wildcard" ? filling : part.Literal)).join("");
  return [filled(""), filled("-"), filled("").slice(0, -1)];
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

/** Pseudorandom whole numbers below a limit, determined by the seed (mulberry32). */
export function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
  };
}
