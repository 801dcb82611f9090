/** The optional YAML file of settings. */
import { isMap, isScalar, isSeq, parseDocument } from "yaml";
import type { Raw, RawMap } from "./raw.ts";

/** What the file says, or why it says nothing. */
export interface SettingsFile {
  readonly values: ReadonlyMap<string, Raw>;
  readonly problems: readonly string[];
}

/**
 * Parses YAML 1.2: one map, from setting to a scalar, a list or a map. Scalars are taken as they are written: `010`
 * and `1.0` do not become 10 and 1. Where the file is broken, only its own problems are known and `values` is empty.
 */
export function parseSettingsFile(text: string): SettingsFile {
  const document = parseDocument(text);
  if (document.errors.length > 0) {
    return { values: new Map(), problems: document.errors.map(({ message }) => `file: ${firstLine(message)}`) };
  }
  const { contents } = document;
  if (contents === null || (isScalar(contents) && contents.value === null)) return { values: new Map(), problems: [] };
  if (!isMap(contents)) return { values: new Map(), problems: ["file: must be a map from setting to value"] };

  const values = new Map<string, Raw>();
  const problems: string[] = [];
  for (const { key, value } of contents.items) {
    const name = isScalar(key) ? String(key.value) : "";
    const raw = toRaw(value);
    if (name === "") problems.push("file: has a key that is no name");
    else if (raw === undefined) problems.push(`${name}: must be a single value, a list of such or a map`);
    else values.set(name, raw);
  }
  return { values, problems };
}

function toRaw(node: unknown): Raw | undefined {
  if (node === null) return "";
  if (isScalar(node)) return scalarText(node);
  if (isSeq(node)) return node.items.every(isScalar) ? node.items.map(scalarText) : undefined;
  return isMap(node) ? (node.toJSON() as RawMap) : undefined;
}

/** The scalar as it was written; a quoted one without its quotes, null as the empty text. */
function scalarText(scalar: { readonly value: unknown; readonly source?: string }): string {
  if (scalar.value === null) return "";
  return scalar.source ?? String(scalar.value);
}

// The rest of the message quotes the file, which may hold secrets.
function firstLine(message: string): string {
  return (message.split("\n", 1)[0] as string).replace(/:$/, "");
}
