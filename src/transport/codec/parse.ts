/** Parses the bytes of a JSON request to text and value. */
import type { DescMessage } from "@bufbuild/protobuf";
import { invalidRequests, type ServiceError } from "../../base/errors.ts";
import { scanJson } from "./structure.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Texts up to this length, in UTF-16 units, are parsed without counting their tokens. */
const smallUnits = 4096;

export interface ParsedJson {
  readonly text: string;
  readonly value: unknown;
}

/** Parses a JSON body. Throws `invalid_request` if it is not JSON in UTF-8, or larger than any request. */
export function parseJson(desc: DescMessage, body: Uint8Array): ParsedJson {
  return parse(readableText(desc, body));
}

/** Parses a part of a body in the same way. */
export function parseText(desc: DescMessage, text: string): ParsedJson {
  requireFewTokens(desc, text);
  return parse(text);
}

function parse(text: string): ParsedJson {
  try {
    return { text, value: JSON.parse(text) };
  } catch (cause) {
    const message = text === "" ? "body is empty; a JSON object is expected" : "body is not JSON";
    throw refusal("json.syntax", message, cause);
  }
}

export function notJson(): ServiceError {
  return refusal("json.syntax", "body is not JSON");
}

/** Returns the text of a body that is cheap to parse, though it need not be JSON. Throws `invalid_request`. */
export function readableText(desc: DescMessage, body: Uint8Array): string {
  const text = decodeText(body);
  requireFewTokens(desc, text);
  return text;
}

/** Returns the text of a body. Throws `invalid_request` if it is not UTF-8. */
export function decodeText(body: Uint8Array): string {
  try {
    return utf8.decode(body);
  } catch (cause) {
    throw refusal("json.utf8", "body is not UTF-8", cause);
  }
}

function requireFewTokens(desc: DescMessage, text: string): void {
  const { excess } = text.length > smallUnits ? scanJson(desc, text) : { excess: undefined };
  if (excess !== undefined) throw invalidRequests(excess);
}

function refusal(rule: string, message: string, cause?: unknown): ServiceError {
  return invalidRequests([{ field: "", rule, message }], cause);
}
