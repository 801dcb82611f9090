/** Bytes of the JSON routes to protobuf messages, and back. */
import {
  type DescMessage,
  fromJsonString,
  type JsonObject,
  type Message,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";
import { ServiceError, type Violation } from "../../base/errors.ts";
import { checkJson } from "./check.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads a request. Throws `invalid_request` with every violation that the JSON itself shows.
 *
 * @param desc descriptor from the registry of the JSON routes
 */
export function decodeRequest(desc: DescMessage, body: Uint8Array): Message {
  let text: string;
  try {
    text = utf8.decode(body);
  } catch (cause) {
    throw refuse([{ field: "", rule: "json.utf8", message: "body is not UTF-8" }], cause);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const message = text === "" ? "body is empty; a JSON object is expected" : "body is not JSON";
    throw refuse([{ field: "", rule: "json.syntax", message }], cause);
  }
  const violations = checkJson(desc, value);
  if (violations.length > 0) throw refuse(violations);
  try {
    return fromJsonString(desc, text);
  } catch (cause) {
    // Syntax, names and types are good at this point: what protobuf-es still refuses is a member given twice.
    throw refuse([{ field: "", rule: "json.duplicate_member", message: "a member is given more than once" }], cause);
  }
}

function refuse(violations: readonly Violation[], cause?: unknown): ServiceError {
  const [first] = violations;
  const where = first === undefined || first.field === "" ? "" : `${first.field}: `;
  const others = violations.length > 1 ? ` (and ${violations.length - 1} more)` : "";
  return new ServiceError("invalid_request", `${where}${first?.message ?? "bad request"}${others}`, {
    violations,
    cause,
  });
}

/** Makes the encoder of an answer: every member that is not optional is present, 64-bit integers are numbers. */
export function responseEncoder(desc: DescMessage): (message: Message) => string {
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
