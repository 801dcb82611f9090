/** One setting, as data, and the shapes that settings have. */
import { list, nonEmpty, type Parser } from "./raw.ts";

/** One row of the table. */
export interface Setting<T> {
  /** Name of the environment variable, and key in the file. */
  readonly name: `SVC_${string}`;
  /** What it does, its unit and its range, for a person. */
  readonly help: string;
  readonly parse: Parser<Exclude<T, undefined>>;
  /** Text of the default; absent where the setting may be absent. */
  readonly default?: string;
  /** What its absence means, for a person. */
  readonly absent?: string;
  /** The value where it is absent and has no default: an empty list, or nothing at all. */
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

/** A list that is empty where the setting is absent, and only then. */
export function optionalList<T>(
  name: Setting<T>["name"],
  absent: string,
  parseItem: (item: string) => T,
  help: string,
): Setting<readonly T[]> {
  return { name, absent, absentValue: [], parse: nonEmpty(list(parseItem)), help };
}
