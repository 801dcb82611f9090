/** A JSON value as RFC 8785 can carry it. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
/** A JSON object; a member that is undefined is absent. */
export interface JsonObject {
  readonly [member: string]: JsonValue | undefined;
}

/** Member name in JSON: `send_only` for `sendOnly`. */
export type SnakeCase<Name> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}`
  : Name;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object; an empty one for any other value. */
export function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** The texts of a list; none of any other value. */
export function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

/** Returns the result of `read`; undefined if it throws. */
export function orUndefined<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** The members that have a value. */
export function defined<Members extends object>(
  members: Members,
): { [Name in keyof Members]?: Exclude<Members[Name], undefined> } {
  const present = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as { [Name in keyof Members]?: Exclude<Members[Name], undefined> };
}

/**
 * Parses JSON; throws `SyntaxError`. `JSON.parse` may give a member with an escape in its name another name: V8 takes the
 * name for an earlier one that its text begins with, as `"\""` for `\` (https://github.com/nodejs/node/issues/63785).
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!hasEscapedName(text)) return value;
  const names = new Map<string, number>();
  const numbered = text.replace(/("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?/g, (token, quoted: string, colon?: string) => {
    if (colon === undefined) return token;
    const name = JSON.parse(quoted) as string;
    if (!names.has(name)) names.set(name, names.size);
    return `"#${names.get(name)}":`;
  });
  const byNumber = [...names.keys()];
  return JSON.parse(numbered, (_, object) =>
    isObject(object)
      ? Object.fromEntries(
          Object.entries(object).map(([number, member]) => [byNumber[Number(number.slice(1))], member]),
        )
      : object,
  );
}

/** Whether an object of the text has two members with one name, of which parsers keep the last. The value is the parsed text. */
export function hasRepeatedMember(text: string, value: unknown): boolean {
  let members = 0;
  const open = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== "object" || next === null) continue;
    const inner = Object.values(next);
    if (!Array.isArray(next)) members += inner.length;
    for (const each of inner) if (typeof each === "object") open.push(each);
  }
  const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g;
  for (let found = tokens.exec(text); found !== null; found = tokens.exec(text)) if (found[1] !== undefined) members--;
  return members < 0;
}

/** Of valid JSON. Looks only at strings with an escape, from the first one to the closing quote. */
function hasEscapedName(text: string): boolean {
  const mark = /\\.|"(\s*:)?/g;
  for (let at = text.indexOf("\\"); at >= 0; at = text.indexOf("\\", mark.lastIndex)) {
    mark.lastIndex = at;
    let found = mark.exec(text);
    while (found?.[0].startsWith("\\")) found = mark.exec(text);
    if (found?.[1] !== undefined) return true;
  }
  return false;
}
