/** Encodes protobuf messages as text of the JSON routes with protobuf-es, for clients of the demonstration and tests. */
import {
  type DescMessage,
  type JsonObject,
  type JsonValue,
  type Message,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";

/**
 * Returns the encoder of messages in the spelling of the JSON routes: every member that is not optional is present, and
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
    if (field.fieldKind === "message" || (field.fieldKind === "list" && field.listKind === "message"))
      return longFields(field.message, here);
    if (field.fieldKind === "scalar" && field.scalar === ScalarType.INT64) return [here];
    return [];
  });
}

function toNumber(json: JsonValue | undefined, [member, ...rest]: readonly string[]): void {
  if (Array.isArray(json)) {
    for (const item of json) toNumber(item, [member as string, ...rest]);
  } else if (typeof json === "object" && json !== null && member !== undefined) {
    const value = json[member];
    if (rest.length > 0) toNumber(value, rest);
    else if (typeof value === "string") json[member] = Number(value);
  }
}
