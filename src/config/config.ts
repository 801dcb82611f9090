/** Turns the environment and the optional file into a frozen, typed configuration, or into all problems. */
import { type Files, fileProblems } from "./files.ts";
import { unknownKeys, unknownVariables } from "./names.ts";
import { type Raw, type Setting, ValueProblem } from "./raw.ts";
import { type Config, type Key, settings } from "./settings.ts";
import { parseSettingsFile, type SettingsFile, type SettingsText } from "./settings-file.ts";
import { type ConfigFor, keysOf, requiredKeysOf, type Use } from "./uses.ts";
import { weaknesses } from "./weaknesses.ts";

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

export interface ReadOptions<U extends Use> {
  /** Use of the configuration: only the settings of this use are validated. */
  readonly uses: U;
  /** File system in which the named files are looked up. */
  readonly files: Files;
}

/** The configuration, or every problem at once, each as "NAME: problem". Problems do not repeat values. */
export type ReadResult<U extends Use> =
  | { readonly config: ConfigFor<U> }
  | { readonly problems: readonly [string, ...string[]] };

const noFile: SettingsFile = { values: new Map(), problems: [], isBroken: false };

/**
 * Reads the settings of the environment and of the file (YAML); the environment takes precedence. Unknown names are
 * refused for every use, because a misspelt name might be any setting. If the file cannot be parsed, missing settings
 * are not reported, because it may have them. Pure except for `files`.
 */
export function readConfig<U extends Use>(
  env: Environment,
  settingsText: SettingsText | undefined,
  { uses, files }: ReadOptions<U>,
): ReadResult<U> {
  const file = settingsText === undefined ? noFile : parseSettingsFile(settingsText);
  const read = readValues(env, file, uses);
  const config = read.values as Config;
  const has = (key: Key): boolean => read.understood.has(key);
  const problems = [
    ...file.problems,
    ...unknownKeys([...file.values.keys()]),
    ...unknownVariables(env),
    ...read.problems,
    ...requiredKeysOf(uses)
      .filter((key) => !file.isBroken && has(key) && config[key] === undefined)
      .map((key) => `${nameOf(key)}: is required`),
    ...weaknesses.flatMap(({ keys, problem }) => {
      const found = keys.every(has) ? problem(config) : undefined;
      return found === undefined ? [] : [`${nameOf(keys[0])}: ${found}`];
    }),
    ...fileProblems(config, files, has, nameOf),
  ];
  const [first, ...rest] = problems;
  if (first !== undefined) return { problems: [first, ...rest] };
  return { config: Object.freeze(read.values) as ConfigFor<U> };
}

interface ReadValues {
  readonly values: Partial<Config>;
  /** Keys whose value, default or absence is known. */
  readonly understood: ReadonlySet<Key>;
  /** Those of them that were set. */
  readonly set: ReadonlySet<Key>;
  readonly problems: readonly string[];
}

function readValues(env: Environment, file: SettingsFile, use: Use): ReadValues {
  const values: Partial<Record<Key, unknown>> = {};
  const understood = new Set<Key>();
  const set = new Set<Key>();
  const problems: string[] = [];
  for (const key of keysOf(use)) {
    const setting: Setting<unknown> = settings[key];
    const raw = env[setting.name] ?? file.values.get(setting.name);
    const parsed = parse(setting, raw ?? setting.default);
    if ("problem" in parsed) {
      problems.push(`${setting.name}: ${parsed.problem}`);
      continue;
    }
    values[key] = deepFreeze(parsed.value);
    understood.add(key);
    if (raw !== undefined) set.add(key);
  }
  return { values: values as Partial<Config>, understood, set, problems };
}

function parse(setting: Setting<unknown>, raw: Raw | undefined): { value: unknown } | { problem: string } {
  if (raw === undefined) return { value: setting.absentValue };
  try {
    return { value: setting.parse(raw) };
  } catch (error) {
    if (error instanceof ValueProblem) return { problem: error.message };
    throw error;
  }
}

function nameOf(key: Key): string {
  return settings[key].name;
}

/** Freezes plain data, but not objects of classes, such as addresses. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== Array.prototype) return value;
  for (const member of Object.values(value)) deepFreeze(member);
  return Object.freeze(value);
}
