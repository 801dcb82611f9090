/** Data files that settings name: YAML or JSON, unique keys, no aliases. */
import { type Document, isScalar, parseDocument, visit } from "yaml";
import { read, type Schema } from "./schema.ts";

/** Reads the file's text by its schema. Throws an Error that describes all problems. */
export function readDataFile<T>(text: string, schema: Schema<T>): T {
  const result = read(schema, parseDataFile(text));
  if ("value" in result) return result.value;
  // The file itself has no path.
  throw new Error(result.problem === "must be a map" ? "the file: must be a map" : result.problem);
}

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
