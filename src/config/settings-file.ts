/** The optional YAML file of settings. */
import { isMap, isScalar, parseDocument, visit } from "yaml";

/** The unparsed file. */
export interface SettingsText {
  /** As the operator named it: problems of the file begin with it. */
  readonly path: string;
  readonly text: string;
}

/** The file's settings by name: a text, or a list or map of such. Or its problems: then its settings are unknown. */
export type SettingsFile =
  | { readonly values: ReadonlyMap<string, unknown> }
  | { readonly problems: readonly [string, ...string[]] };

/**
 * Parses YAML 1.2: one map. Scalars keep their spelling, so that `010` and `1.0` do not become 10 and 1; null is the
 * empty text.
 */
export function parseSettingsFile({ path, text }: SettingsText): SettingsFile {
  const broken = (problem: string): SettingsFile => ({ problems: [`${path}: ${problem}`] });
  const document = parseDocument(text, { stringKeys: true, merge: false });
  const [error] = document.errors;
  // The rest of the message quotes the file, which may contain secrets.
  if (error !== undefined) return broken((error.message.split("\n", 1)[0] as string).replace(/:$/, ""));
  const { contents } = document;
  if (contents === null || (isScalar(contents) && contents.value === null)) return { values: new Map() };
  if (!isMap(contents)) return broken("must be a map from setting to value");
  visit(document, {
    Scalar: (_, node) => {
      node.value = node.value === null ? "" : (node.source ?? String(node.value));
    },
  });
  try {
    return { values: new Map(Object.entries(document.toJS({ maxAliasCount: 0 }) as object)) };
  } catch {
    return broken("must not use aliases");
  }
}
