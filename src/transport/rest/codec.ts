/** Bytes of the JSON routes to protobuf messages. */
import { type DescMessage, fromJsonString, type Message } from "@bufbuild/protobuf";
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
