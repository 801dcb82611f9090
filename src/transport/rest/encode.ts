/** Protobuf messages to the text of the JSON routes. Gateway and client write alike. */
import { type DescMessage, type JsonObject, type Message, ScalarType, toJson } from "@bufbuild/protobuf";

/**
 * Makes the encoder of messages in the spelling of the JSON routes: every member that is not optional is present, and
 * 64-bit integers are numbers.
 *
 * @param desc descriptor from the registry of the JSON routes
 */
export function messageEncoder(desc: DescMessage): (message: Message) => string {
  const long = longFields(desc);
  return (message) => {
    const json = toJson(desc, message, { alwaysEmitImplicit: true }) as JsonObject;
    for (const path of long) toNumber(json, path);
    return JSON.stringify(json);
  };
}

/** Paths of the 64-bit integers in a message type. */
function longFields(desc: DescMessage, path: readonly string[] = []): string[][] {
  return desc.fields.flatMap((field) => {
    const here = [...path, field.name];
    if (field.fieldKind === "message") return longFields(field.message, here);
    if (field.fieldKind === "scalar" && field.scalar === ScalarType.INT64) return [here];
    return [];
  });
}

function toNumber(json: JsonObject, path: readonly string[]): void {
  let at: JsonObject = json;
  for (const member of path.slice(0, -1)) {
    const next = at[member];
    if (typeof next !== "object" || next === null || Array.isArray(next)) return;
    at = next;
  }
  const last = path.at(-1) as string;
  if (typeof at[last] === "string") at[last] = Number(at[last]);
}
