/** Cedar's values, and their equality. */
import type { CedarValueJson } from "@cedar-policy/cedar-wasm/nodejs";
import { escapes } from "../model/entities.ts";

/**
 * A Long is a number if that is safe, and otherwise a bigint, so that equal values are identical. A record is a map, in
 * which no name is special.
 */
export type Value = string | boolean | number | bigint | EntityValue | SetValue | ReadonlyMap<string, Value>;

/** Thrown if Cedar's evaluation would fail: the policy could not be evaluated. */
export const evaluationFailed = new Error("the evaluation fails");
/** Thrown for unsupported evaluations: Cedar is needed. */
export const leftToCedar = new Error("Cedar alone can evaluate this");

export class EntityValue {
  readonly type: string;
  readonly id: string;
  /** Equal only for equal entities: a type has no quotation mark. */
  readonly key: string;

  constructor(type: string, id: string) {
    this.type = type;
    this.id = id;
    this.key = `${type}"${id}`;
  }
}

export class SetValue {
  readonly items: readonly Value[];
  #plain: ReadonlySet<Value> | undefined;
  #texts: ReadonlySet<string> | undefined;

  constructor(items: readonly Value[]) {
    this.items = items;
  }

  has(value: Value): boolean {
    if (typeof value !== "object") {
      this.#plain ??= new Set(this.items);
      return this.#plain.has(value);
    }
    this.#texts ??= new Set(this.items.filter((item) => typeof item === "object").map(canonicalText));
    return this.#texts.has(canonicalText(value));
  }
}

export function areEqual(left: Value, right: Value): boolean {
  if (left === right) return true;
  if (left instanceof EntityValue) return right instanceof EntityValue && left.key === right.key;
  return typeof left === "object" && typeof right === "object" && canonicalText(left) === canonicalText(right);
}

/** Equal only for equal values. */
function canonicalText(value: Value): string {
  if (value instanceof EntityValue) return `E${JSON.stringify([value.type, value.id])}`;
  if (value instanceof SetValue) return `S{${[...new Set(value.items.map(canonicalText))].sort().join()}}`;
  if (value instanceof Map) {
    const members = [...value].map(([name, member]) => `${JSON.stringify(name)}:${canonicalText(member)}`);
    return `R{${members.sort().join()}}`;
  }
  return typeof value === "string" ? JSON.stringify(value) : `${value}`;
}

/** Converts Cedar's JSON. Throws `leftToCedar` for invalid values and extensions. */
export function readJson(json: CedarValueJson): Value {
  switch (typeof json) {
    case "string":
    case "boolean":
      return json;
    case "number":
      if (!Number.isSafeInteger(json)) throw leftToCedar;
      return json + 0; // no negative zero
    case "object": {
      if (json === null) throw leftToCedar;
      if (Array.isArray(json)) return new SetValue(json.map(readJson));
      const names = Object.keys(json);
      if (!names.some((name) => escapes.includes(name))) {
        const present = names.filter((name) => json[name as keyof typeof json] !== undefined);
        return new Map(present.map((name) => [name, readJson(json[name as keyof typeof json])]));
      }
      const { __entity: uid } = json as { readonly __entity?: unknown };
      if (names.length > 1 || uid === undefined) throw leftToCedar;
      return entityOf(uid);
    }
    default:
      throw leftToCedar;
  }
}

/** The entity of `{"type": …, "id": …}`. Throws `leftToCedar` for anything else. */
export function entityOf(uid: unknown): EntityValue {
  const { type, id } = Object(uid) as Readonly<Record<string, unknown>>;
  if (typeof type !== "string" || typeof id !== "string") throw leftToCedar;
  for (const name in uid as object) if (name !== "type" && name !== "id") throw leftToCedar;
  return new EntityValue(type, id);
}
