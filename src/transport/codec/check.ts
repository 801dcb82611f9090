/**
 * Finds the faults of a request's JSON, with exact paths, in either spelling. The JSON routes refuse more than protobuf
 * JSON does: camelCase twins, canonical or numeric enumeration values, numbers sent as text. Compiled once for each
 * message type.
 *
 * Does not check duplicate members, which a parsed value no longer shows, nor the rules in the protobuf definitions.
 */
import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { maxViolations, type Violation } from "../../base/errors.ts";
import { isCleanText } from "../../base/ids.ts";
import { itemLimit } from "./size-limits.ts";

/** `rest`: the spelling of the JSON routes, for descriptors of their registry; `canonical`: protobuf's own. */
export type Spelling = "rest" | "canonical";

type Check = (value: unknown, path: string, violations: Violation[]) => void;

interface Member {
  readonly field: DescField;
  readonly check: Check;
}

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

/** Nesting depth of a free object. */
const maxFreeDepth = 16;

const checks = { rest: new WeakMap<DescMessage, Check>(), canonical: new WeakMap<DescMessage, Check>() };

/** Returns the violations of a value from `JSON.parse`, at most `maxViolations`. */
export function checkJson(desc: DescMessage, value: unknown, spelling: Spelling): Violation[] {
  const violations: Violation[] = [];
  checkOf(desc, spelling)(value, "", violations);
  return violations;
}

function checkOf(desc: DescMessage, spelling: Spelling): Check {
  const known = checks[spelling].get(desc);
  if (known !== undefined) return known;
  // In the registry of the JSON routes both names are the same.
  const members = new Map<string, Member>();
  for (const field of desc.fields) {
    const member = { field, check: compile(field, spelling) };
    members.set(field.jsonName, member).set(field.name, member);
  }
  const check: Check = (value, path, violations) => {
    if (!isObject(value)) {
      violations.push(wrongType(path, "an object"));
      return;
    }
    for (const [member, content] of Object.entries(value)) {
      if (violations.length >= maxViolations) return;
      const known = members.get(member);
      const name = known?.field.name ?? printable(member);
      const memberPath = path === "" ? name : `${path}.${name}`;
      if (known === undefined) {
        if (!isOpen(desc)) violations.push(unknownMember(memberPath));
        continue;
      }
      if (member !== name && Object.hasOwn(value, name)) violations.push(givenTwice(memberPath));
      if (content !== null) known.check(content, memberPath, violations);
    }
  };
  checks[spelling].set(desc, check);
  return check;
}

function compile(field: DescField, spelling: Spelling): Check {
  switch (field.fieldKind) {
    case "message":
      return isFree(field.message) ? checkFree : checkOf(field.message, spelling);
    case "enum":
      return enumCheck(field.enum, spelling);
    case "scalar":
      return scalarCheck(field.scalar, spelling);
    case "list": {
      if (field.listKind === "enum") throw new Error(`${field} is not supported on the JSON routes`);
      const item =
        field.listKind === "message" ? checkOf(field.message, spelling) : scalarCheck(field.scalar, spelling);
      const limit = itemLimit(field);
      return (value, path, violations) => {
        if (!Array.isArray(value)) {
          violations.push(wrongType(path, "an array"));
          return;
        }
        const tooMany = limit(value.length, path);
        if (tooMany !== undefined) violations.push(tooMany);
        else for (const [i, content] of value.entries()) item(content, `${path}[${i}]`, violations);
      };
    }
    case "map": {
      if (field.mapKind !== "scalar") throw new Error(`${field} is not supported on the JSON routes`);
      const entry = scalarCheck(field.scalar, spelling);
      const limit = itemLimit(field);
      return (value, path, violations) => {
        if (!isObject(value)) {
          violations.push(wrongType(path, "an object"));
          return;
        }
        const entries = Object.entries(value);
        const tooMany = limit(entries.length, path);
        if (tooMany !== undefined) {
          violations.push(tooMany);
          return;
        }
        for (const [i, [key, content]] of entries.entries()) {
          if (!isCleanText(key)) violations.push(uncleanText(`${path}[${i}].key`));
          entry(content, `${path}[${i}].value`, violations);
        }
      };
    }
  }
}

/** Checks a free object, from any protocol. */
export function checkFree(value: unknown, path: string, violations: Violation[]): void {
  if (isObject(value)) checkFreeValue(value, path, violations, 1);
  else violations.push(wrongType(path, "an object"));
}

/** Paths have positions instead of names, because the names are the caller's text. */
function checkFreeValue(value: unknown, path: string, violations: Violation[], depth: number): void {
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
    for (const [i, item] of value.entries()) checkFreeValue(item, `${path}[${i}]`, violations, depth + 1);
    return;
  }
  for (const [i, [name, content]] of Object.entries(value).entries()) {
    // Assigning to `__proto__` creates no member.
    if (!isCleanText(name) || name === "__proto__") violations.push(uncleanName(`${path}[${i}].key`));
    checkFreeValue(content, `${path}[${i}].value`, violations, depth + 1);
  }
}

function uncleanName(field: string): Violation {
  return { field, rule: "string.clean", message: "must not contain U+0000 or a lone surrogate, nor be __proto__" };
}

function enumCheck(desc: DescEnum, spelling: Spelling): Check {
  const names = new Set(desc.values.map(({ jsonName }) => jsonName));
  const declared = desc.values.filter(({ number }) => number !== 0).map(({ jsonName }) => jsonName);
  const message = `must be one of ${declared.join(", ")}`;
  return (value, path, violations) => {
    // Includes the name of the value 0, which is the empty string on the JSON routes: in an optional member it means
    // absent, in a required one its rule refuses it. Canonical JSON accepts numbers too; a rule decides which.
    const known = typeof value === "string" ? names.has(value) : spelling === "canonical" && isInt32(value);
    if (!known) violations.push({ field: path, rule: "enum.defined_only", message });
  };
}

function scalarCheck(scalar: ScalarType, spelling: Spelling): Check {
  switch (scalar) {
    case ScalarType.STRING:
      return (value, path, violations) => {
        if (typeof value !== "string") violations.push(wrongType(path, "a string"));
        else if (!isCleanText(value)) violations.push(uncleanText(path));
      };
    case ScalarType.BOOL:
      return (value, path, violations) => {
        if (typeof value !== "boolean") violations.push(wrongType(path, "true or false"));
      };
    case ScalarType.INT32:
    case ScalarType.INT64:
      return (value, path, violations) => {
        const fits = Number.isSafeInteger(value) || (spelling === "canonical" && isLongText(value));
        if (!fits) violations.push(wrongType(path, "an integer of at most 2^53-1"));
      };
    default:
      throw new Error(`scalar ${ScalarType[scalar]} is not supported on the JSON routes`);
  }
}

function isInt32(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && Math.abs(value) < 2 ** 31;
}

/** Decimal text of a 64-bit integer. A rule refuses values that are too large. */
function isLongText(value: unknown): boolean {
  return (
    typeof value === "string" && /^-?[0-9]{1,19}$/.test(value) && BigInt.asIntN(64, BigInt(value)) === BigInt(value)
  );
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function uncleanText(field: string): Violation {
  return { field, rule: "string.clean", message: "must not contain U+0000 or a lone surrogate" };
}

function wrongType(field: string, expected: string): Violation {
  return { field, rule: "json.type", message: `must be ${expected}` };
}

export function givenTwice(field: string): Violation {
  return { field, rule: "json.duplicate_member", message: "member is given more than once" };
}

export function unknownMember(field: string): Violation {
  return { field, rule: "json.unknown_field", message: "unknown member" };
}

/** Member names are the caller's text: only those that look like names are repeated. */
export function printable(member: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(member) ? member : "?";
}
