/**
 * A setting's raw value, and parsers for its three shapes. The environment has only text, in which a list is
 * comma-separated and a map is JSON. A file may contain real lists and maps.
 */
import { parseDocument } from "yaml";

/** Text from the environment, or text, list or map from the file. A scalar of the file keeps its spelling. */
export type Raw = string | readonly string[] | RawMap;
/** A map from JSON or YAML. Its members are not checked yet. */
export type RawMap = Readonly<Record<string, unknown>>;

/**
 * Converts a raw value to its typed form.
 * @throws ValueProblem whose message completes the sentence "NAME …" and does not repeat the value
 */
export type Parser<T> = (raw: Raw) => T;

/** The reason for refusing a value. */
export class ValueProblem extends Error {
  override readonly name = "ValueProblem";
}

/** A parser of a single text. An empty one is refused: omitting the setting selects the default. */
export function text<T>(parse: (text: string) => T): Parser<T> {
  return (raw) => {
    if (typeof raw !== "string") throw new ValueProblem("must be a single value");
    if (raw === "") throw new ValueProblem("is empty; leave it out for the default");
    return parse(raw);
  };
}

/** A parser of a list without duplicates, each item by its own parser. Only a file can contain the empty list, `[]`. */
export function list<T>(parseItem: (item: string) => T): Parser<readonly T[]> {
  return (raw) => {
    if (raw === "") throw new ValueProblem("is empty; leave it out for the default");
    const items = typeof raw === "string" ? raw.split(",").map((item) => item.trim()) : raw;
    if (!Array.isArray(items)) throw new ValueProblem("must be a list");
    if (items.includes("")) throw new ValueProblem("has an empty item");
    if (new Set(items).size < items.length) throw new ValueProblem("names an item twice");
    return items.map(parseItem);
  };
}

/** The parser, refusing an empty result. */
export function nonEmpty<T>(parse: Parser<readonly T[]>): Parser<readonly T[]> {
  return (raw) => {
    const items = parse(raw);
    if (items.length === 0) throw new ValueProblem("must name at least one item");
    return items;
  };
}

/** A parser of a map. */
export function map<T>(parse: (map: RawMap) => T): Parser<T> {
  return (raw) => parse(typeof raw === "string" ? parseJsonMap(raw) : requireMap(raw));
}

/** The value, if it is a map. */
export function requireMap(value: unknown, what = ""): RawMap {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ValueProblem(`${what && `${what} `}must be a map`);
  }
  return value as RawMap;
}

function parseJsonMap(json: string): RawMap {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new ValueProblem("must be a map, as a JSON object");
  }
  // JSON.parse silently keeps the last of two equal keys; YAML, which contains JSON, reports them.
  if (parseDocument(json).errors.some(({ code }) => code === "DUPLICATE_KEY")) {
    throw new ValueProblem("names a key twice");
  }
  return requireMap(value);
}

/** One row of the table. */
export interface Setting<T> {
  /** Name of the environment variable, and key in the file. */
  readonly name: `SVC_${string}`;
  /** Purpose, unit and range, for a person. */
  readonly help: string;
  readonly parse: Parser<Exclude<T, undefined>>;
  /** Text of the default; absent if the setting may be absent. */
  readonly default?: string;
  /** Meaning of its absence, for a person. */
  readonly absent?: string;
  /** The value of an absent setting without a default: an empty list, or undefined. */
  readonly absentValue?: T;
}

/** A setting that always has a value. */
export function given<T>(
  name: Setting<T>["name"],
  defaultText: string,
  parse: Setting<T>["parse"],
  help: string,
): Setting<T> {
  return { name, default: defaultText, parse, help };
}

/** A setting that may be absent. */
export function optional<T>(
  name: Setting<T>["name"],
  absent: string,
  parse: Parser<Exclude<T, undefined>>,
  help: string,
): Setting<T | undefined> {
  return { name, absent, parse, help };
}

/** A list that is empty only if the setting is absent. */
export function optionalList<T>(
  name: Setting<T>["name"],
  absent: string,
  parseItem: (item: string) => T,
  help: string,
): Setting<readonly T[]> {
  return { name, absent, absentValue: [], parse: nonEmpty(list(parseItem)), help };
}
