/** A JSON value as RFC 8785 can carry it. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
/** A JSON object; a member that is undefined is absent. */
export interface JsonObject {
  readonly [member: string]: JsonValue | undefined;
}
