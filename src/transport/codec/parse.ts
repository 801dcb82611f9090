/** Bytes of a JSON request to its text and value. */
import type { DescMessage } from "@bufbuild/protobuf";
import { invalidRequests, type ServiceError } from "../../base/errors.ts";
import { scanJson } from "./structure.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Bodies up to this size hold too little to be looked at before they are parsed. */
const smallBytes = 4096;

export interface ParsedJson {
  readonly text: string;
  readonly value: unknown;
}

/**
 * Throws `invalid_request` for what is no JSON in UTF-8, and, before it is parsed, for a body with more in it than any
 * request of the type may hold.
 */
export function parseJson(desc: DescMessage, body: Uint8Array): ParsedJson {
  const text = readableText(desc, body);
  try {
    return { text, value: JSON.parse(text) };
  } catch (cause) {
    const message = text === "" ? "body is empty; a JSON object is expected" : "body is not JSON";
    throw refusal("json.syntax", message, cause);
  }
}

/** The text of a body that may be parsed at little cost, though it need not be JSON. Throws `invalid_request`. */
export function readableText(desc: DescMessage, body: Uint8Array): string {
  let text: string;
  try {
    text = utf8.decode(body);
  } catch (cause) {
    throw refusal("json.utf8", "body is not UTF-8", cause);
  }
  const { excess } = body.byteLength > smallBytes ? scanJson(desc, text) : { excess: undefined };
  if (excess !== undefined) throw invalidRequests(excess);
  return text;
}

function refusal(rule: string, message: string, cause: unknown): ServiceError {
  return invalidRequests([{ field: "", rule, message }], cause);
}
