/** Data files that settings name: YAML or JSON, unique keys, no aliases. */
import { type Document, isScalar, parseDocument, visit } from "yaml";
import { type Parser, ValueProblem } from "./raw.ts";

/** Most problems in one message. */
const maxProblems = 16;

/** Parses the file's text. Throws an Error that describes the problem. */
export function parseDataFile(text: string): unknown {
  const json = parsedAsJson(text);
  if (json !== undefined) return json;
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

/**
 * The content of JSON, in a hundredth of the time; undefined if the text is not JSON, or if a number or a key is not in
 * its shortest form or is repeated: then it is longer than its re-serialisation.
 */
function parsedAsJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    const written = text.replaceAll(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");
    return JSON.stringify(value).length === written.length ? value : undefined;
  } catch {
    return undefined;
  }
}

function requireUniqueKeys(document: Document): void {
  visit(document, {
    Map(_, { items }) {
      const known = new Set<unknown>();
      for (const { key } of items) {
        const name = isScalar(key) ? key.value : key;
        if (known.has(name)) throw new Error(`${String(name)}: is there twice`);
        known.add(name);
      }
    },
  });
}

/** The value if it is a map; else reports a problem and returns an empty map. */
export function mapOf(value: unknown, path: string, problems: string[]): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  problems.push(`${path}: must be a map`);
  return {};
}

/** The members of a map, of which all that have another name are problems. The file itself has no path. */
export function membersOf<Name extends string>(
  value: unknown,
  path: string,
  names: readonly Name[],
  problems: string[],
): Partial<Record<Name, unknown>> {
  const members = mapOf(value, path || "the file", problems);
  const known: readonly string[] = names;
  for (const name of Object.keys(members))
    if (!known.includes(name))
      problems.push(`${path && `${path}.`}${name}: is not known; there are ${names.join(", ")}`);
  return members as Partial<Record<Name, unknown>>;
}

/** Throws an Error with the problems, if there are any. */
export function refuse(problems: readonly string[]): void {
  if (problems.length > 0) {
    const more = problems.length - maxProblems;
    throw new Error(`${problems.slice(0, maxProblems).join("; ")}${more > 0 ? `; and ${more} more` : ""}`);
  }
}

/** The text if the parser accepts it; else reports a problem and returns the default. */
export function textOf(
  value: unknown,
  byDefault: string,
  parse: Parser<string>,
  path: string,
  problems: string[],
): string {
  if (value === undefined) return byDefault;
  const problem = typeof value === "string" ? problemOf(() => parse(value)) : "must be a text";
  if (problem !== undefined) problems.push(`${path}: ${problem}`);
  return String(value);
}

/** The parser's message about a value; undefined if it accepts it. */
export function problemOf(parse: () => unknown): string | undefined {
  try {
    parse();
    return undefined;
  } catch (error) {
    if (error instanceof ValueProblem) return error.message;
    throw error;
  }
}
