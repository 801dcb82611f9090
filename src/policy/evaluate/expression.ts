/**
 * Compiles expressions to functions of a scene with the results of Cedar's evaluator, in its order: what Cedar does not
 * evaluate is not evaluated, and failures throw `evaluationFailed`. If several operands are always evaluated, the order
 * of their failures does not matter.
 */
import { isLike } from "../../base/text-forms.ts";
import { type Binary, type Expression, isExact } from "./program.ts";
import type { Paths, Scene, Slot } from "./scene.ts";
import { areEqual, EntityValue, evaluationFailed, leftToCedar, SetValue, type Value } from "./values.ts";

type Evaluate = (scene: Scene) => Value;

/** Compiles a condition; a result other than a boolean fails. */
export function compileCondition(expression: Expression, paths: Paths): (scene: Scene) => boolean {
  const evaluate = compile(expression, paths);
  return (scene) => truth(evaluate(scene));
}

/** The path of an expression; undefined if it is not one. */
export function slotOf(expression: Expression, paths: Paths): Slot | undefined {
  switch (expression[0]) {
    case "path":
      return (expression.slice(2) as string[]).reduce(
        (slot: Slot, name) => paths.member(slot, name),
        paths.variable(expression[1]),
      );
    case ".": {
      const left = slotOf(expression[1], paths);
      return left === undefined ? undefined : paths.member(left, expression[2]);
    }
    case "getTag": {
      const [, of, name] = expression;
      const left = slotOf(of, paths);
      const isLiteral = left !== undefined && name[0] === "value" && typeof name[1] === "string";
      return isLiteral ? paths.tag(left, name[1] as string) : undefined;
    }
    default:
      return undefined;
  }
}

/** The value of a constant expression; undefined if it is not known to be constant. */
export function constantOf(expression: Expression): Value | undefined {
  if (expression[0] === "value") return isExact(expression) ? expression[1] : undefined;
  if (expression[0] === "entity") return new EntityValue(expression[1], expression[2]);
  if (expression[0] !== "set") return undefined;
  const items = expression[1].map(constantOf);
  return items.every((item) => item !== undefined) ? new SetValue(items) : undefined;
}

function compile(expression: Expression, paths: Paths): Evaluate {
  const constant = constantOf(expression);
  if (constant !== undefined) return () => constant;
  const slot = slotOf(expression, paths);
  if (slot !== undefined) return (scene) => there(scene.value(slot));
  const within = (part: Expression) => compile(part, paths);
  switch (expression[0]) {
    case "set": {
      const items = expression[1].map(within);
      return (scene) => new SetValue(items.map((item) => item(scene)));
    }
    case "record": {
      const members = expression[1].map(([name, part]) => [name, within(part)] as const);
      return (scene) => new Map(members.map(([name, member]) => [name, member(scene)]));
    }
    case ".": {
      const [, left, name] = expression;
      const of = within(left);
      return (scene) => there(scene.member(of(scene), name));
    }
    case "has":
      return presence(expression[1], expression.slice(2) as string[], paths);
    case "like": {
      const text = within(expression[1]);
      const pattern = expression.slice(2) as string[];
      return (scene) => isLike(textOf(text(scene)), pattern);
    }
    case "is": {
      const [, left, type] = expression;
      const entity = within(left);
      return (scene) => entityOf(entity(scene)).type === type;
    }
    case "if": {
      const condition = within(expression[1]);
      const [then, otherwise] = [within(expression[2]), within(expression[3])];
      return (scene) => (truth(condition(scene)) ? then(scene) : otherwise(scene));
    }
    case "!": {
      const arg = within(expression[1]);
      return (scene) => !truth(arg(scene));
    }
    case "neg": {
      const arg = within(expression[1]);
      return (scene) => sum(0, -longOf(arg(scene)));
    }
    case "isEmpty": {
      const arg = within(expression[1]);
      return (scene) => setOf(arg(scene)).items.length === 0;
    }
    case "&&": {
      const [left, right] = [within(expression[1]), within(expression[2])];
      return (scene) => truth(left(scene)) && truth(right(scene));
    }
    case "||": {
      const [left, right] = [within(expression[1]), within(expression[2])];
      return (scene) => truth(left(scene)) || truth(right(scene));
    }
    case "path":
    case "value":
    case "entity":
    case "call":
    case "unknown":
      return () => {
        throw leftToCedar;
      };
    case "==":
      return equality(expression[1], expression[2], paths);
    default: {
      const [left, right] = [within(expression[1]), within(expression[2])];
      const operator = strict[expression[0]];
      return (scene) => operator(left(scene), right(scene), scene);
    }
  }
}

/** Most conditions are equalities, so constants are prepared. */
function equality(first: Expression, second: Expression, paths: Paths): Evaluate {
  const [left, right] = [compile(first, paths), compile(second, paths)];
  const constant = constantOf(second);
  if (constant === undefined || constant instanceof SetValue) return (scene) => areEqual(left(scene), right(scene));
  if (!(constant instanceof EntityValue)) return (scene) => left(scene) === constant;
  return (scene) => {
    const value = left(scene);
    return value instanceof EntityValue && value.key === constant.key;
  };
}

/** Operators that evaluate both operands first. */
const strict: Readonly<
  Record<Exclude<Binary, "&&" | "||" | "==">, (left: Value, right: Value, scene: Scene) => Value>
> = {
  "!=": (left, right) => !areEqual(left, right),
  // Numbers and bigints compare exactly.
  "<": (left, right) => longOf(left) < longOf(right),
  "<=": (left, right) => longOf(left) <= longOf(right),
  ">": (left, right) => longOf(left) > longOf(right),
  ">=": (left, right) => longOf(left) >= longOf(right),
  "+": (left, right) => sum(longOf(left), longOf(right)),
  "-": (left, right) => sum(longOf(left), -longOf(right)),
  "*": (left, right) => product(longOf(left), longOf(right)),
  in: (left, right, scene) => {
    const entity = entityOf(left);
    if (right instanceof EntityValue) return scene.isIn(entity, right);
    // Each item must be an entity, even after a match.
    return setOf(right)
      .items.map(entityOf)
      .some((other) => scene.isIn(entity, other));
  },
  contains: (left, right) => setOf(left).has(right),
  containsAll: (left, right) => {
    const set = setOf(left);
    return setOf(right).items.every((item) => set.has(item));
  },
  containsAny: (left, right) => {
    const set = setOf(left);
    return setOf(right).items.some((item) => set.has(item));
  },
  hasTag: (left, right, scene) => scene.tag(entityOf(left), textOf(right)) !== undefined,
  getTag: (left, right, scene) => there(scene.tag(entityOf(left), textOf(right))),
};

/** `e has a.b` is `e has a && e.a has b`. */
function presence(left: Expression, names: readonly string[], paths: Paths): Evaluate {
  const slot = slotOf(left, paths);
  if (slot === undefined) {
    const of = compile(left, paths);
    return (scene) => {
      let value: Value | undefined = of(scene);
      for (const name of names) {
        value = scene.member(value, name);
        if (value === undefined) return false;
      }
      return true;
    };
  }
  const slots = [slot];
  for (const name of names) slots.push(paths.member(slots.at(-1) as Slot, name));
  return (scene) => {
    for (const [index, each] of slots.entries()) {
      if (!scene.has(each)) {
        if (index > 0) return false;
        throw evaluationFailed;
      }
      if (index < names.length && !scene.hasMembers(each)) throw evaluationFailed;
    }
    return true;
  };
}

function there(value: Value | undefined): Value {
  if (value === undefined) throw evaluationFailed;
  return value;
}

function truth(value: Value): boolean {
  if (typeof value !== "boolean") throw evaluationFailed;
  return value;
}

function textOf(value: Value): string {
  if (typeof value !== "string") throw evaluationFailed;
  return value;
}

function entityOf(value: Value): EntityValue {
  if (!(value instanceof EntityValue)) throw evaluationFailed;
  return value;
}

function setOf(value: Value): SetValue {
  if (!(value instanceof SetValue)) throw evaluationFailed;
  return value;
}

type Long = number | bigint;

function longOf(value: Value): Long {
  if (typeof value !== "number" && typeof value !== "bigint") throw evaluationFailed;
  return value;
}

// A safe integer was not rounded; any other result is calculated exactly.

function sum(left: Long, right: Long): Long {
  const plain = typeof left === "number" && typeof right === "number" ? left + right : Number.NaN;
  return Number.isSafeInteger(plain) ? plain : long(BigInt(left) + BigInt(right));
}

function product(left: Long, right: Long): Long {
  const plain = typeof left === "number" && typeof right === "number" ? left * right + 0 : Number.NaN;
  return Number.isSafeInteger(plain) ? plain : long(BigInt(left) * BigInt(right));
}

function long(exact: bigint): Long {
  if (BigInt.asIntN(64, exact) !== exact) throw evaluationFailed;
  const plain = Number(exact);
  return Number.isSafeInteger(plain) ? plain : exact;
}
