/**
 * Turns the environment and the optional file into a typed configuration, or into all problems. A command
 * validates its own settings and no others.
 */
import { isMap, isScalar, parseDocument, visit } from "yaml";
import { orUndefined } from "../base/json.ts";
import { issuerDefaultKeys } from "./data-files.ts";
import { type Files, fileProblems } from "./files.ts";
import { read } from "./schema.ts";
import { type Config, type Key, type Setting, settings } from "./settings.ts";
import { weaknesses } from "./weaknesses.ts";

const keys = {
  serve: Object.keys(settings) as Key[],
  policy: ["keyReferences", "supportedProfiles"],
  // Separate from the above, because a directory on the command line replaces it.
  policy_directory: ["policyDir"],
  migrate: ["store", "storePasswordFile"],
  store: ["store", "storePasswordFile", "anchor"],
  store_copy: ["storePasswordFile", "anchor", "ledgerKey"],
  issuer: ["authMode", "oidcIssuer", "oidcIssuers", "oidcCa", ...issuerDefaultKeys],
  witnesses: ["witnesses"],
  keys: ["ledgerKey"],
  ledger: ["store", "storePasswordFile", "anchor", "ledgerKey"],
  ledger_start: ["store", "storePasswordFile", "anchor", "ledgerKey", "ledgerOrigin"],
  anchor: ["store", "anchor", "ledgerKey", "witnesses"],
  clients: ["sessionClients"],
  ops_credentials: ["opsCredentials"],
} as const satisfies Record<string, readonly Key[]>;

/** Use of the configuration. */
export type Use = keyof typeof keys;

/** Settings that commands require. */
export const requiredKeys = {
  serve: ["policyDir", "ledgerOrigin"],
  policy_directory: ["policyDir"],
  clients: ["sessionClients"],
  ops_credentials: ["opsCredentials"],
} as const satisfies Partial<Record<Use, readonly Key[]>>;

/** A command's configuration: the settings that it uses, the required ones without `undefined`. */
export type ConfigFor<U extends Use> = {
  readonly [K in (typeof keys)[U][number]]: U extends keyof typeof requiredKeys
    ? K extends (typeof requiredKeys)[U][number]
      ? Exclude<Config[K], undefined>
      : Config[K]
    : Config[K];
};

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The configuration, or every problem at once, each as "NAME: problem". Problems do not repeat values that may be secret. */
export type ReadResult<U extends Use> =
  | { readonly config: ConfigFor<U> }
  | { readonly problems: readonly [string, ...string[]] };

/**
 * Reads the settings of the environment and of the file (YAML); the environment takes precedence. Unknown names are
 * refused for every use, because a misspelt name might be any setting. If the file cannot be parsed, missing settings
 * are not reported, because it may have them. Pure except for `files`, in which the named files are looked up.
 *
 * @param uses only the settings of this use are validated
 */
export function readConfig<U extends Use>(
  env: Environment,
  settingsText: SettingsText | undefined,
  { uses, files }: { readonly uses: U; readonly files: Files },
): ReadResult<U> {
  const file = settingsText === undefined ? { values: new Map() } : parseSettingsFile(settingsText);
  const isBroken = "problems" in file;
  const fileValues: ReadonlyMap<string, unknown> = isBroken ? new Map() : file.values;
  const values: Partial<Record<Key, unknown>> = {};
  const problems: string[] = [
    ...(isBroken ? file.problems : []),
    ...[...fileValues.keys()].filter(isUnknown).map(unknown),
    ...Object.keys(env)
      .filter((name) => name.startsWith("SVC_") && isUnknown(name) && !serviceLink.test(name))
      .map(unknown),
  ];
  for (const key of keys[uses]) {
    const { name, schema, default: byDefault, absentValue }: Setting<unknown> = settings[key];
    const raw = env[name] ?? fileValues.get(name) ?? byDefault;
    const result = raw === undefined ? { value: absentValue } : read(schema, raw);
    if ("value" in result) values[key] = result.value;
    else problems.push(`${name}: ${result.problem}`);
  }
  const config = values as Config;
  /** Whether the value, default or absence is known. */
  const has = (key: Key): boolean => Object.hasOwn(values, key);
  problems.push(
    ...((requiredKeys as Partial<Record<Use, readonly Key[]>>)[uses] ?? [])
      .filter((key) => !isBroken && has(key) && config[key] === undefined)
      .map((key) => `${nameOf(key)}: is required`),
    ...weaknesses
      .filter(({ keys, isWeak }) => keys.every(has) && isWeak(config))
      .map(({ keys, problem }) => `${nameOf(keys[0])}: ${problem}`),
    ...fileProblems(config, files),
  );
  const [first, ...rest] = problems;
  if (first !== undefined) return { problems: [first, ...rest] };
  return { config: config as unknown as ConfigFor<U> };
}

function nameOf(key: Key): string {
  return settings[key].name;
}

const names: readonly string[] = Object.values(settings).map(({ name }) => name);

/** Variables that an orchestrator injects for a service whose own name starts with `svc-`. */
const serviceLink = /^SVC_.*_(SERVICE_HOST$|PORT)/;

const isUnknown = (name: string): boolean => !names.includes(name);

/** The problem of a name that is no setting, with the setting that needs the fewest edits if they are few for its length. */
function unknown(name: string): string {
  const upper = name.toUpperCase();
  const candidates = names.map((known) => ({ known, distance: editDistance(upper, known) }));
  const best = candidates.reduce((a, b) => (b.distance < a.distance ? b : a));
  const isNear = best.distance <= Math.max(2, Math.floor(name.length / 4));
  return `${name}: is not a setting${isNear ? `; did you mean ${best.known}?` : ""}`;
}

/** Levenshtein distance: the minimum number of insertions, deletions and substitutions. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitution, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}

// The optional YAML file of settings.

/** The unparsed file. */
export interface SettingsText {
  /** As the operator named it: problems of the file begin with it. */
  readonly path: string;
  readonly text: string;
}

/** The file's settings by name: a text, or a list or map of such. Or its problems: then its settings are unknown. */
type SettingsFile =
  | { readonly values: ReadonlyMap<string, unknown> }
  | { readonly problems: readonly [string, ...string[]] };

/**
 * Parses YAML 1.2: one map. Scalars keep their spelling, so that `010` and `1.0` do not become 10 and 1; null is the
 * empty text.
 */
function parseSettingsFile({ path, text }: SettingsText): SettingsFile {
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
  const values = orUndefined(() => document.toJS({ maxAliasCount: 0 }) as object);
  return values === undefined ? broken("must not use aliases") : { values: new Map(Object.entries(values)) };
}
