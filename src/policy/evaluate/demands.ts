/**
 * Finds what a policy demands before it can apply, so that it is evaluated only for requests that meet that. Demands
 * are top-level conditions. A demand may rule the policy out only if nothing evaluated before it can fail, which is
 * proven here from the policy and from properties of requests (`Assumption`).
 */
import { constantOf, slotOf } from "./expression.ts";
import { type Expression, operandsOf } from "./program.ts";
import type { Paths, Slot } from "./scene.ts";
import { EntityValue, SetValue, type Value } from "./values.ts";

/** The value at the path equals, has, is in, begins or ends with, one of the values. Entities are keys. */
export interface Demand {
  readonly slot: Slot;
  readonly kind: "equals" | "equalsEntity" | "contains" | "containsEntity" | "in" | "startsWith" | "endsWith";
  readonly values: readonly (string | number | bigint | boolean)[];
}

/** A property of a request: if the parent path has a value, this path has one; or it has this type. */
export interface Assumption {
  readonly slot: Slot;
  readonly is: "there" | Type;
}

type Type = "bool" | "long" | "string" | "set" | "entity" | "members";

export interface Demands {
  /** At least one must be met. None if nothing can be proven. */
  readonly demands: readonly Demand[];
  /** Demands are valid only under these. */
  readonly assumptions: readonly Assumption[];
}

/** Finds the demands of conditions, which are evaluated in their order. */
export function demandsOf(conditions: readonly Expression[], paths: Paths): Demands {
  const demands: Demand[] = [];
  let assumptions: readonly Assumption[] = [];
  let known: ReadonlySet<Slot> = new Set();
  for (const condition of conditions) {
    const proof = new Proof(paths);
    if (!proof.is(condition, "bool", known)) break;
    const demand = demandOf(condition, paths);
    if (demand !== undefined) demands.push(demand);
    assumptions = [...assumptions, ...proof.assumptions];
    known = new Set([...known, ...impliedBy(condition, paths)]);
  }
  return { demands, assumptions: demands.length === 0 ? [] : assumptions };
}

/** Paths that have a value if the expression is true. */
function impliedBy(expression: Expression, paths: Paths): readonly Slot[] {
  if (expression[0] === "&&") return [...impliedBy(expression[1], paths), ...impliedBy(expression[2], paths)];
  if (expression[0] === "has") {
    const left = slotOf(expression[1], paths);
    const slots: Slot[] = [];
    for (const name of left === undefined ? [] : (expression.slice(2) as string[])) {
      slots.push(paths.member(slots.at(-1) ?? (left as Slot), name));
    }
    return slots;
  }
  const tag = expression[0] === "hasTag" ? slotOf(["getTag", expression[1], expression[2]], paths) : undefined;
  return tag === undefined ? [] : [tag];
}

/** Operands with which operators cannot fail. Their results are booleans. Arithmetic may overflow, so it is not here. */
const operands: Readonly<Record<string, readonly (Type | "any")[]>> = {
  "!": ["bool"],
  "&&": ["bool", "bool"],
  "||": ["bool", "bool"],
  "==": ["any", "any"],
  "!=": ["any", "any"],
  "<": ["long", "long"],
  "<=": ["long", "long"],
  ">": ["long", "long"],
  ">=": ["long", "long"],
  like: ["string"],
  is: ["entity"],
  isEmpty: ["set"],
  contains: ["set", "any"],
  containsAll: ["set", "set"],
  containsAny: ["set", "set"],
  hasTag: ["entity", "string"],
};

/** Proves that the evaluation of expressions cannot fail, under assumptions. */
class Proof {
  readonly assumptions: Assumption[] = [];
  readonly #paths: Paths;

  constructor(paths: Paths) {
    this.#paths = paths;
  }

  /** Whether it has a value of this type if the known paths have values. */
  is(expression: Expression, type: Type | "any", known: ReadonlySet<Slot>): boolean {
    const slot = slotOf(expression, this.#paths);
    const found = slot === undefined ? this.#typeOf(expression, known) : this.#pathType(slot, known);
    if (found === "any" && slot !== undefined && type !== "any") this.assumptions.push({ slot, is: type });
    if (found === "any" || type === "any") return found !== undefined;
    return found === type || (type === "members" && found === "entity");
  }

  /** Undefined if it may have no value. */
  #typeOf(expression: Expression, known: ReadonlySet<Slot>): Type | undefined {
    const [operator] = expression;
    const parts = operandsOf(expression);
    if (operator === "value")
      return typeof expression[1] === "string" ? "string" : typeof expression[1] === "number" ? "long" : "bool";
    if (operator === "entity") return "entity";
    if (operator === "set") return parts.every((part) => this.is(part, "any", known)) ? "set" : undefined;
    if (operator === "has")
      return this.#canHave(expression[1], expression.slice(2) as string[], known) ? "bool" : undefined;
    const needed =
      operator === "in" ? (["entity", isEntitySet(parts[1]) ? "set" : "entity"] as const) : operands[operator];
    const [first] = parts;
    const after = operator === "&&" && first ? new Set([...known, ...impliedBy(first, this.#paths)]) : known;
    const isNeeded = (part: Expression, at: number) => this.is(part, needed?.[at] ?? "any", at === 0 ? known : after);
    return needed !== undefined && parts.every(isNeeded) ? "bool" : undefined;
  }

  /** A path has a value if each of its steps does: known, or assumed for members. `any` if its type is unknown. */
  #pathType(slot: Slot, known: ReadonlySet<Slot>): Type | "any" | undefined {
    const step = this.#paths.step(slot);
    if (step === undefined) return slot === this.#paths.variable("context") ? "members" : "entity";
    if (this.#pathType(step.parent, known) === undefined) return undefined;
    if (known.has(slot)) return "any";
    if (step.isTag) return undefined;
    this.assumptions.push({ slot, is: "there" });
    return "any";
  }

  #canHave(left: Expression, names: readonly string[], known: ReadonlySet<Slot>): boolean {
    let slot = slotOf(left, this.#paths);
    if (slot === undefined || !this.is(left, "members", known)) return false;
    for (const name of names.slice(0, -1)) {
      slot = this.#paths.member(slot, name);
      this.assumptions.push({ slot, is: "members" });
    }
    return true;
  }
}

function isEntitySet(expression: Expression | undefined): boolean {
  const set = expression && constantOf(expression);
  return set instanceof SetValue && set.items.every((item) => item instanceof EntityValue);
}

/** The demand of a true condition; undefined if it cannot be looked up. */
function demandOf(condition: Expression, paths: Paths): Demand | undefined {
  const itself = slotOf(condition, paths);
  if (itself !== undefined) return { slot: itself, kind: "equals", values: [true] };
  const [operator, left, right] = condition as readonly [string, Expression, Expression];
  if (operator === "||") return joined(demandOf(left, paths), demandOf(right, paths));
  if (operator === "like") {
    const [, , ...pattern] = condition as readonly [string, Expression, ...string[]];
    const [first = "", last = ""] = [pattern[0], pattern.at(-1)];
    if (pattern.length === 1) return demand("equals", slotOf(left, paths), [first]);
    return first === "" && last === ""
      ? undefined
      : demand(first.length < last.length ? "endsWith" : "startsWith", slotOf(left, paths), [
          first.length < last.length ? last : first,
        ]);
  }
  if (!looked.includes(operator)) return undefined;
  const [before, after] = [slotOf(left, paths), slotOf(right, paths)];
  const [constant, other] = [constantOf(left), constantOf(right)];
  if (operator === "==") return demand("equals", before ?? after, one(other ?? constant));
  if (operator === "in") return demand("in", before, other instanceof SetValue ? other.items : one(other));
  if (operator === "contains" && constant instanceof SetValue) return demand("equals", after, constant.items);
  if (operator === "contains") return demand("contains", before, one(other));
  if (operator === "containsAll") {
    // All are needed, so the first suffices.
    return other instanceof SetValue ? demand("contains", before, other.items.slice(0, 1)) : undefined;
  }
  const [slot, set] = other === undefined ? [after, constant] : [before, other];
  return set instanceof SetValue ? demand("contains", slot, set.items) : undefined;
}

const looked: readonly string[] = ["==", "in", "contains", "containsAll", "containsAny"];

function one(value: Value | undefined): readonly Value[] {
  return value === undefined ? [] : [value];
}

function demand(kind: Demand["kind"], slot: Slot | undefined, values: readonly Value[]): Demand | undefined {
  if (slot === undefined || values.length === 0) return undefined;
  const entities = values.filter((value) => value instanceof EntityValue);
  if (entities.length === values.length) {
    const ofEntities = kind === "equals" ? "equalsEntity" : kind === "contains" ? "containsEntity" : kind;
    return { slot, kind: ofEntities, values: entities.map(({ key }) => key) };
  }
  const plain = values.filter((value) => typeof value !== "object");
  return plain.length === values.length && kind !== "in" ? { slot, kind, values: plain } : undefined;
}

function joined(left: Demand | undefined, right: Demand | undefined): Demand | undefined {
  if (left === undefined || left.slot !== right?.slot || left.kind !== right.kind) return undefined;
  return { ...left, values: [...left.values, ...right.values] };
}
