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
