/** Bytes of the JSON routes to protobuf messages. */
import { type DescMessage, fromJsonString, type Message } from "@bufbuild/protobuf";
import { invalidRequests } from "../../base/errors.ts";
import { checkJson } from "./check.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads a request. Throws `invalid_request` with the violations that the JSON itself shows.
 *
 * @param desc descriptor from the registry of the JSON routes
 */
export function decodeRequest(desc: DescMessage, body: Uint8Array): Message {
  let text: string;
  try {
    text = utf8.decode(body);
  } catch (cause) {
    throw invalidRequests([{ field: "", rule: "json.utf8", message: "body is not UTF-8" }], cause);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const message = text === "" ? "body is empty; a JSON object is expected" : "body is not JSON";
    throw invalidRequests([{ field: "", rule: "json.syntax", message }], cause);
  }
  const violations = checkJson(desc, value);
  if (violations.length > 0) throw invalidRequests(violations);
  try {
    return fromJsonString(desc, text);
  } catch (cause) {
    // Syntax, names, types and text are good at this point: what protobuf-es still refuses is a member given twice.
    const message = "a member is given more than once";
    throw invalidRequests([{ field: duplicateOf(desc, cause), rule: "json.duplicate_member", message }], cause);
  }
}

/** Name of the member that protobuf-es found twice; empty where it is the caller's own, such as an attribute's key. */
function duplicateOf(desc: DescMessage, cause: unknown): string {
  const [, name = ""] = /duplicate object key "([^"]*)"$/.exec(cause instanceof Error ? cause.message : "") ?? [];
  const isOurs = desc.fields.some(
    (field) =>
      field.name === name || (field.fieldKind === "message" && field.message.fields.some((f) => f.name === name)),
  );
  return isOurs ? name : "";
}
