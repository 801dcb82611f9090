/** What the protobuf definitions say of a message beyond its types: openness, sizes, and what free objects may hold. */
import { type DescField, type DescMessage, getOption } from "@bufbuild/protobuf";
import { field as fieldRules } from "../../../gen/buf/validate/validate_pb.ts";
import { maxViolations, type Violation } from "../../base/errors.ts";
import { isCleanText } from "../../base/ids.ts";

/** Packages whose standard requires receivers to ignore unknown members (AuthZEN 1.0, JSON Serialization). */
const openPackages: ReadonlySet<string> = new Set(["platform.authzen.v1"]);

/** Whether messages of the type may have unknown members. */
export function isOpen({ file }: DescMessage): boolean {
  return openPackages.has(file.proto.package);
}

/** Whether the type is a JSON object with arbitrary members. */
export function isFree({ typeName }: DescMessage): boolean {
  return typeName === "google.protobuf.Struct";
}

/** Returns the check of how many items a list or map has. */
export function itemLimit(field: DescField): (items: number, path: string) => Violation | undefined {
  const { type } = getOption(field, fieldRules);
  const max = type.case === "repeated" ? type.value.maxItems : type.case === "map" ? type.value.maxPairs : undefined;
  // Every list and map of the contract has a limit; a test checks that.
  const limit = max === undefined || max === 0n ? 0 : Number(max);
  const rule = type.case === "map" ? "map.max_pairs" : "repeated.max_items";
  return (items, path) =>
    items > limit ? { field: path, rule, message: `must have at most ${limit} items` } : undefined;
}

export function wrongType(field: string, expected: string): Violation {
  return { field, rule: "json.type", message: `must be ${expected}` };
}

export function uncleanText(field: string): Violation {
  return { field, rule: "string.clean", message: "must not contain U+0000 or a lone surrogate" };
}

function uncleanName(field: string): Violation {
  return { field, rule: "string.clean", message: "must not contain U+0000 or a lone surrogate, nor be __proto__" };
}

/** Nesting depth of a free object. */
const maxFreeDepth = 16;

/**
 * Checks the values in a free object, from any protocol. Paths have positions instead of names, because the names are
 * the caller's text.
 */
export function checkFree(value: unknown, path: string, violations: Violation[], depth = 1): void {
  if (violations.length >= maxViolations) return;
  if (typeof value === "string" && !isCleanText(value)) violations.push(uncleanText(path));
  if (typeof value === "number" && !(Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value)))
    violations.push(wrongType(path, "a number that JSON keeps: a whole one of at most 2^53-1"));
  if (typeof value !== "object" || value === null) return;
  if (depth > maxFreeDepth) {
    violations.push({ field: path, rule: "json.depth", message: `must be nested at most ${maxFreeDepth} deep` });
    return;
  }
  if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) checkFree(item, `${path}[${i}]`, violations, depth + 1);
    return;
  }
  for (const [i, [name, content]] of Object.entries(value).entries()) {
    // Assigning to `__proto__` creates no member.
    if (!isCleanText(name) || name === "__proto__") violations.push(uncleanName(`${path}[${i}].key`));
    checkFree(content, `${path}[${i}].value`, violations, depth + 1);
  }
}
