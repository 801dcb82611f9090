/** Reads what a person wrote. Each function returns the value in its type, or throws a RangeError that says why not. */

export type Members = Readonly<Record<string, unknown>>;

export function members(value: unknown, what: string, known?: readonly string[]): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new RangeError(`${what} must be a map`);
  const unknown = Object.keys(value).find((name) => known !== undefined && !known.includes(name));
  if (unknown !== undefined)
    throw new RangeError(`${what} has an unknown member ${unknown}; known: ${known?.join(", ")}`);
  return value as Members;
}

export function string(value: unknown, what: string): string {
  if (typeof value !== "string" || value === "") throw new RangeError(`${what} must be text`);
  return value;
}

export function strings(value: unknown, what: string): readonly string[] {
  if (!Array.isArray(value)) throw new RangeError(`${what} must be a list`);
  return value.map((item) => string(item, `an item of ${what}`));
}

export function oneOf<T extends string>(values: readonly T[], value: unknown, what: string): T {
  const found = values.find((candidate) => candidate === value);
  if (found === undefined) throw new RangeError(`${what} must be one of ${values.join(", ")}`);
  return found;
}

export function optional<T>(value: unknown, parse: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : parse(value);
}

export function textMembers(from: Members, names: readonly string[]): Readonly<Record<string, string>> {
  const given = names.filter((name) => from[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, string(from[name], name)]));
}
