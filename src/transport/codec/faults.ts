/** Finds all faults of a request that cannot be read as it is: in its JSON, and in its readable members. */
import { type DescMessage, fromJson, type JsonValue, type Message } from "@bufbuild/protobuf";
import { protoCamelCase } from "@bufbuild/protobuf/reflect";
import { maxViolations, type Violation } from "../../base/errors.ts";
import { checkJson, givenTwice, isObject, type Spelling } from "./check.ts";
import type { ParsedJson } from "./parse.ts";
import { scanJson } from "./structure.ts";

/** Returns the violations of the rules in the protobuf definitions. */
export type MessageRules = (message: Message) => readonly Violation[];

/**
 * Returns the violations in the order of the body; those of absent members come last in their object. A member with
 * faulty JSON is reported for that alone. Empty if the JSON has no fault: the message can then be read, and the reader
 * checks its rules.
 */
export function jsonFaults(
  desc: DescMessage,
  { text, value }: ParsedJson,
  spelling: Spelling,
  rules: MessageRules,
): readonly Violation[] {
  const faults = checkJson(desc, value, spelling);
  if (faults.length >= maxViolations || faults.some(({ field }) => field === "")) return faults;
  const named = new Set(faults.map(({ field }) => field));
  const { duplicates, excess } = scanJson(desc, text);
  if (excess !== undefined) return excess;
  for (const field of duplicates) if (!named.has(field)) faults.push(givenTwice(field));
  if (faults.length === 0) return faults;
  const message = readWithout(desc, value, faults);
  if (message === undefined) return faults;
  for (const { field } of faults) named.add(field);
  const broken = rules(message).filter(({ field }) => !named.has(field));
  return inOrderOf(value, [...faults, ...broken]);
}

function readWithout(desc: DescMessage, value: unknown, faults: readonly Violation[]): Message | undefined {
  const rest = copyOf(value);
  for (const { field, rule } of faults) {
    // The last of two equal members counts, but protobuf-es refuses a field under both of its names.
    if (rule === "json.duplicate_member") dropTwin(rest, segmentsOf(field));
    else remove(rest, segmentsOf(field));
  }
  try {
    return fromJson(desc, rest as JsonValue, { ignoreUnknownFields: true });
  } catch {
    // Only the known faults can be reported.
    return undefined;
  }
}

/** Deeper than any request: free objects may be nested 16 deep, four levels below the outermost. */
const maxCopiedDepth = 32;

/** Copies objects and arrays, without copying text. Leaves out what is nested too deep. */
function copyOf(value: unknown, depth = 0): unknown {
  if (typeof value === "object" && depth > maxCopiedDepth) return null;
  if (Array.isArray(value)) return value.map((item) => copyOf(item, depth + 1));
  if (!isObject(value)) return value;
  // Own members of any name: assigning would lose `__proto__`.
  return Object.fromEntries(Object.entries(value).map(([name, content]) => [name, copyOf(content, depth + 1)]));
}

/** An empty text replaces items and entries, so that the others keep their positions. */
function remove(value: unknown, path: readonly string[]): void {
  const [segment, ...rest] = path;
  if (segment === undefined) return;
  if (Array.isArray(value)) {
    value[Number(segment)] = "";
  } else if (isObject(value)) {
    const name = memberAt(value, segment);
    if (name === undefined) return;
    if (isPosition(segment)) value[name] = "";
    else if (rest.length > 0) remove(value[name], rest);
    else delete value[name];
  }
}

function dropTwin(value: unknown, [segment = "", ...rest]: readonly string[]): void {
  if (!isObject(value)) return;
  const twin = protoCamelCase(segment);
  if (rest.length > 0) dropTwin(value[memberAt(value, segment) ?? ""], rest);
  else if (twin !== segment && Object.hasOwn(value, segment)) delete value[twin];
}

/** Sorts violations by the position of their members in the value. */
function inOrderOf(value: unknown, violations: readonly Violation[]): readonly Violation[] {
  return violations
    .map((violation) => ({ violation, place: positionOf(value, segmentsOf(violation.field)) }))
    .sort((a, b) => compare(a.place, b.place))
    .map(({ violation }) => violation);
}

/** Positions from the outside in; infinite for an absent member. */
function positionOf(value: unknown, path: readonly string[]): readonly number[] {
  const [segment, ...rest] = path;
  if (segment === undefined) return [];
  if (!isObject(value)) return isPosition(segment) ? [Number(segment)] : [];
  const name = memberAt(value, segment);
  if (name === undefined) return [Number.POSITIVE_INFINITY];
  return [Object.keys(value).indexOf(name), ...positionOf(value[name], rest)];
}

function compare(a: readonly number[], b: readonly number[]): number {
  const differs = a.findIndex((position, depth) => position !== b[depth]);
  if (differs === -1) return 0;
  const other = b[differs];
  return other === undefined || (a[differs] as number) > other ? 1 : -1;
}

/** `attributes[3].value` is `attributes`, `3`, `value`. */
function segmentsOf(path: string): readonly string[] {
  return path.match(/[^.[\]]+/g) ?? [];
}

function isPosition(segment: string): boolean {
  return /^[0-9]+$/.test(segment);
}

/** Finds the member of a path segment: by position in a map, else by its name in either spelling. */
function memberAt(object: Readonly<Record<string, unknown>>, segment: string): string | undefined {
  if (isPosition(segment)) return Object.keys(object)[Number(segment)];
  const names = segment === "?" ? Object.keys(object).filter((name) => !/^[A-Za-z_]\w{0,63}$/.test(name)) : [segment];
  return [...names, protoCamelCase(segment)].find((name) => Object.hasOwn(object, name));
}
