/** The optional YAML file of settings. */
import { isMap, isScalar, isSeq, parseDocument } from "yaml";
import type { Raw, RawMap } from "./raw.ts";

/** The unparsed file. */
export interface SettingsText {
  /** As the operator named it: problems of the file begin with it. */
  readonly path: string;
  readonly text: string;
}

/** The file's settings, or its problems. */
export interface SettingsFile {
  readonly values: ReadonlyMap<string, Raw>;
  readonly problems: readonly string[];
  /** Whether it could not be parsed, so that its settings are unknown. */
  readonly isBroken: boolean;
}

/**
 * Parses YAML 1.2: one map, from setting to a scalar, a list or a map. Scalars keep their spelling: `010` and `1.0` do
 * not become 10 and 1. If the file is broken, only its own problems are returned and `values` is empty.
 */
export function parseSettingsFile({ path, text }: SettingsText): SettingsFile {
  const broken = (...problems: string[]) => ({
    values: new Map(),
    problems: problems.map((problem) => `${path}: ${problem}`),
    isBroken: true,
  });
  const document = parseDocument(text);
  if (document.errors.length > 0) {
    return broken(...document.errors.map(({ message }) => firstLine(message)));
  }
  const { contents } = document;
  if (contents === null || (isScalar(contents) && contents.value === null))
    return { values: new Map(), problems: [], isBroken: false };
  if (!isMap(contents)) return broken("must be a map from setting to value");

  const values = new Map<string, Raw>();
  const problems: string[] = [];
  for (const { key, value } of contents.items) {
    const name = isScalar(key) ? String(key.value) : "";
    const raw = toRaw(value);
    if (name === "") problems.push(`${path}: has an empty key`);
    else if (raw === undefined) problems.push(`${name}: must be a single value, a list of such or a map`);
    else values.set(name, raw);
  }
  return { values, problems, isBroken: false };
}

function toRaw(node: unknown): Raw | undefined {
  if (node === null) return "";
  if (isScalar(node)) return scalarText(node);
  if (isSeq(node)) return node.items.every(isScalar) ? node.items.map(scalarText) : undefined;
  return isMap(node) ? (node.toJSON() as RawMap) : undefined;
}

/** The scalar's source text; a quoted one without its quotes, null as the empty text. */
function scalarText(scalar: { readonly value: unknown; readonly source?: string }): string {
  if (scalar.value === null) return "";
  return scalar.source ?? String(scalar.value);
}

// The rest of the message quotes the file, which may contain secrets.
function firstLine(message: string): string {
  return (message.split("\n", 1)[0] as string).replace(/:$/, "");
}
