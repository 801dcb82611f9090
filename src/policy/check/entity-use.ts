/**
 * A policy's use of the organisation's entities, from its syntax tree. An overestimate: every value that a policy has
 * came from a path that it reads or from an entity that it names, and each member or tag that it reads leads at most
 * one entity further.
 */
import type { PolicyJson, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import type { EntityUse } from "../evaluate/entity-request.ts";
import type { InputCatalogue } from "../model/inputs.ts";
import { pathOf } from "./reads.ts";

/** Combined use of several policies. */
export function joinUses(uses: readonly EntityUse[]): EntityUse {
  const roots = new Map(uses.flatMap((use) => use.roots).map((uid) => [`${uid.type} ${uid.id}`, uid]));
  return {
    references: [...new Set(uses.flatMap((use) => use.references))],
    roots: [...roots.values()],
    steps: Math.max(0, ...uses.map(({ steps }) => steps)),
  };
}

/** Every entity of the operator's types that the policy names. */
export function entitiesNamed({ principal, resource, conditions }: PolicyJson): readonly TypeAndId[] {
  return uidsIn([principal, resource, conditions]).filter(isOperators);
}

export function entityUse({ conditions }: Pick<PolicyJson, "conditions">, catalogue: InputCatalogue): EntityUse {
  const walk = new Walk(catalogue);
  const steps = Math.max(0, ...conditions.map(({ body }) => walk.steps(body)));
  return joinUses([{ references: [...walk.references], roots: walk.roots, steps }]);
}

type Node = Readonly<Record<string, unknown>>;

class Walk {
  readonly references = new Set<string>();
  readonly roots: TypeAndId[] = [];
  readonly #catalogue: InputCatalogue;

  constructor(catalogue: InputCatalogue) {
    this.#catalogue = catalogue;
  }

  /** Nested reads of members and tags, beyond paths that lead to no entity. */
  steps(node: unknown): number {
    if (typeof node !== "object" || node === null) return 0;
    const path = pathOf(node);
    if (path !== undefined) return this.#path(path);
    const [operator = "", operand] = Object.entries(node)[0] ?? [];
    if (operator === "Value") return this.#value(operand);
    const { left, right, attr } = operand as Node;
    if (operator === "has") {
      const whole = pathOf(left);
      const names = [attr as string | readonly string[]].flat();
      return whole === undefined ? this.steps(left) + names.length : this.#path([...whole, ...names]);
    }
    if (operator === ".") return this.steps(left) + 1;
    if (operator === "getTag") return Math.max(this.steps(left) + 1, this.steps(right));
    if (comparing.includes(operator)) {
      // An entity that is compared by name is not read otherwise, but on the left of `in` its parents are.
      const isLeftNamed = operator === "in" ? isVariable(left) : isNamed(left);
      return Math.max(isLeftNamed ? 0 : this.steps(left), isNamed(right) ? 0 : this.steps(right));
    }
    return Math.max(0, ...Object.values(operand as Node).map((child) => this.#within(child)));
  }

  /** An expression, or a list of them, as operands of functions are. */
  #within(child: unknown): number {
    return Array.isArray(child) ? Math.max(0, ...child.map((item) => this.steps(item))) : this.steps(child);
  }

  #path(path: readonly string[]): number {
    const joined = path.join(".");
    const found = this.#catalogue.referencesAt(joined);
    for (const reference of found) this.references.add(reference.path);
    const through = found.find((reference) => joined.startsWith(`${reference.path}.`));
    return through === undefined ? 0 : path.length - through.path.split(".").length;
  }

  #value(value: unknown): number {
    const uids = uidsIn(value);
    this.roots.push(...uids.filter(isOperators));
    if (uids.some(({ type }) => ourTypes.includes(type))) {
      for (const { path } of this.#catalogue.references) this.references.add(path);
    }
    return 0;
  }
}

const comparing: readonly string[] = ["in", "==", "!=", "contains", "containsAll", "containsAny"];

/** Types of the service whose entities a policy can name, and through which it can read values of a request. */
const ourTypes: readonly string[] = ["LabelSet", "Principal"];

/** Whether the expression is an entity by name, another constant, or a set of them. */
function isNamed(expression: unknown): boolean {
  const { Value: value, Set: items } = expression as Node;
  return value !== undefined || isVariable(expression) || (Array.isArray(items) && items.every(isNamed));
}

function isVariable(expression: unknown): boolean {
  return (expression as Node).Var !== undefined;
}

function isOperators({ type }: TypeAndId): boolean {
  return type.includes("::");
}

function uidsIn(node: unknown): readonly TypeAndId[] {
  if (typeof node !== "object" || node === null) return [];
  const { type, id } = node as Partial<TypeAndId>;
  const within = Object.values(node).flatMap(uidsIn);
  return typeof type === "string" && typeof id === "string" ? [{ type, id }, ...within] : within;
}
