/**
 * What the JSON routes refuse beyond what protobuf JSON does, and with exact paths: unknown members and camelCase
 * twins, canonical or numeric enumeration values, numbers sent as text. Compiled once for each message type.
 *
 * Does not check duplicate members, which a parsed value no longer shows, nor the rules in the protobuf definitions.
 */
import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { maxViolations, type Violation } from "../../base/errors.ts";
import { isCleanText } from "../../base/ids.ts";
import { itemLimit } from "../item-limits.ts";

type Check = (value: unknown, path: string, violations: Violation[]) => void;

const checks = new WeakMap<DescMessage, Check>();

/** Returns the violations, `maxViolations` at most, in a value that `JSON.parse` made. `desc` comes from the registry of the JSON routes. */
export function checkJson(desc: DescMessage, value: unknown): Violation[] {
  const violations: Violation[] = [];
  checkOf(desc)(value, "", violations);
  return violations;
}

function checkOf(desc: DescMessage): Check {
  const known = checks.get(desc);
  if (known !== undefined) return known;
  const fields = new Map(desc.fields.map((field) => [field.name, compile(field)]));
  const check: Check = (value, path, violations) => {
    if (!isObject(value)) {
      violations.push(wrongType(path, "an object"));
      return;
    }
    for (const [member, content] of Object.entries(value)) {
      if (violations.length >= maxViolations) return;
      const checkMember = fields.get(member);
      const memberPath = path === "" ? printable(member) : `${path}.${printable(member)}`;
      if (checkMember === undefined) {
        violations.push({ field: memberPath, rule: "json.unknown_field", message: "unknown member" });
      } else if (content !== null) {
        checkMember(content, memberPath, violations);
      }
    }
  };
  checks.set(desc, check);
  return check;
}

function compile(field: DescField): Check {
  switch (field.fieldKind) {
    case "message":
      return checkOf(field.message);
    case "enum":
      return enumCheck(field.enum);
    case "scalar":
      return scalarCheck(field.scalar);
    case "list": {
      if (field.listKind !== "scalar") throw new Error(`${field} is not supported on the JSON routes`);
      const item = scalarCheck(field.scalar);
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
      const entry = scalarCheck(field.scalar);
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

function enumCheck(desc: DescEnum): Check {
  const names = new Set(desc.values.map(({ jsonName }) => jsonName));
  const message = `must be one of ${[...names].filter((name) => name !== "").join(", ")}`;
  return (value, path, violations) => {
    // The empty string is among them: in an optional member it means absent, in a required one its rule refuses it.
    if (typeof value !== "string" || !names.has(value))
      violations.push({ field: path, rule: "enum.defined_only", message });
  };
}

function scalarCheck(scalar: ScalarType): Check {
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
        if (!Number.isSafeInteger(value)) violations.push(wrongType(path, "an integer of at most 2^53-1"));
      };
    default:
      throw new Error(`scalar ${ScalarType[scalar]} is not supported on the JSON routes`);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function uncleanText(field: string): Violation {
  return { field, rule: "string.clean", message: "must not contain U+0000 or a lone surrogate" };
}

function wrongType(field: string, expected: string): Violation {
  return { field, rule: "json.type", message: `must be ${expected}` };
}

/** Member names are the caller's: only what looks like a name is repeated. */
function printable(member: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(member) ? member : "?";
}
