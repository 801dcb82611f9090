/**
 * The parts of which schemas of settings and data files are made, and the reader that applies a schema. Messages complete
 * the sentence "NAME …" and do not repeat the value, because it may be a secret.
 */

import * as v from "valibot";
import { type Document, isScalar, parseDocument, visit } from "yaml";
import { hasRepeatedMember, isObject, orUndefined, parseJson } from "../base/json.ts";

/** A schema of a value that was read from text or a file. */
export type Schema<T> = v.GenericSchema<unknown, T>;

/** Most problems in one message. */
const maxProblems = 16;

/** Parses the value; else returns its problems as one text, each after its path in the value. */
export function read<T>(schema: Schema<T>, value: unknown): { readonly value: T } | { readonly problem: string } {
  const result = v.safeParse(schema, value, { abortPipeEarly: true });
  if (result.success) return { value: result.output };
  return {
    problem: listed(
      result.issues.map(({ path = [], message }) => {
        const names = path.map(({ key }) => key).filter((key) => typeof key === "string");
        return names.length === 0 ? message : `${names.join(".")}: ${message}`;
      }),
    ),
  };
}

/** The problems as one text, of bounded length. */
export function listed(problems: readonly string[]): string {
  const more = problems.length - maxProblems;
  return `${problems.slice(0, maxProblems).join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
}

/** A single text. An empty one is refused: omitting the setting selects the default. */
export const text = v.pipe(v.string("must be a single value"), v.nonEmpty("is empty; leave it out for the default"));

/** A text that matches the pattern. `rule` completes "must be …". */
export function matching(pattern: RegExp, rule: string) {
  return v.pipe(text, v.regex(pattern, `must be ${rule}`));
}

/** One of the given words. */
export function oneOf<const T extends string>(words: readonly T[]) {
  return v.pipe(text, v.picklist(words, `must be one of ${words.join(", ")}`));
}

/** Converts a text. The function returns undefined for an invalid one. */
export function parsed<T>(parse: (text: string) => T | undefined, problem: string) {
  return v.rawTransform<string, T>(({ dataset: { value }, addIssue, NEVER }) => {
    const result = parse(value);
    if (result !== undefined) return result;
    addIssue({ message: problem });
    return NEVER;
  });
}

const texts = v.pipe(
  v.unknown(),
  v.check((raw) => raw !== "", "is empty; leave it out for the default"),
  v.transform((raw): unknown => (typeof raw === "string" ? raw.split(",").map((each) => each.trim()) : raw)),
  v.array(v.string("must be a list of single values"), "must be a list of single values"),
  v.check((items) => !items.includes(""), "has an empty item"),
  v.check((items) => new Set(items).size === items.length, "names an item twice"),
);

/** A list without duplicates, from a comma-separated text or a real list. Only a file can contain the empty list, `[]`. */
export function list<T>(item: v.GenericSchema<string, T>): Schema<readonly T[]> {
  return v.pipe(texts, v.array(item));
}

/** A list as above that has an item. */
export function nonEmptyList<T>(item: v.GenericSchema<string, T>): Schema<readonly T[]> {
  return v.pipe(
    list(item),
    v.check((items) => items.length > 0, "must name at least one item"),
  );
}

export const anyMap = v.custom<Record<string, unknown>>(isObject, "must be a map");

/** A map with these members and no others. */
export function members<const Entries extends v.ObjectEntries>(entries: Entries) {
  const names = Object.keys(entries).join(", ");
  return v.pipe(
    anyMap,
    v.strictObject(entries, ({ expected }) =>
      expected === "never" ? `is not known; there are ${names}` : "is required",
    ),
  );
}

/** A map with arbitrary names. `v.record` would omit names such as `constructor`. */
export function mapOf<Name, T>(name: v.GenericSchema<string, Name>, value: Schema<T>) {
  return v.pipe(
    anyMap,
    v.transform((map) => new Map(Object.entries(map))),
    v.map(name, value),
  );
}

// Data files that settings name: YAML or JSON, unique keys, no aliases.

/** Reads the file's text by its schema. Throws an Error that describes all problems. */
export function readDataFile<T>(text: string, schema: Schema<T>): T {
  const result = read(schema, parseDataFile(text));
  if ("value" in result) return result.value;
  // The file itself has no path.
  throw new Error(result.problem === "must be a map" ? "the file: must be a map" : result.problem);
}

/** Parses the file's text. Throws an Error that describes the problem. */
export function parseDataFile(text: string): unknown {
  // A hundred times as fast as YAML.
  const json = orUndefined(() => parseJson(text));
  if (json !== undefined && !hasRepeatedMember(text, json)) return json;
  // A tenant may be named 0123, or 1e3. The library's check for unique keys takes quadratic time.
  const document = parseDocument(text, { uniqueKeys: false, merge: false, stringKeys: true });
  const [error] = [...document.errors, ...document.warnings];
  if (error !== undefined) throw new Error(error.message.split("\n", 1)[0]);
  requireUniqueKeys(document);
  try {
    // No file of this kind needs aliases; they would let a short text expand to a long one.
    return document.toJS({ maxAliasCount: 0 }) ?? {};
  } catch {
    throw new Error("must not use aliases");
  }
}

function requireUniqueKeys(document: Document): void {
  visit(document, {
    Map(_, { items }) {
      const known = new Set<unknown>();
      for (const { key } of items) {
        const name = isScalar(key) ? key.value : key;
        if (known.has(name)) throw new Error(`${String(name)}: is given twice`);
        known.add(name);
      }
    },
  });
}
