/** Bytes of a JSON request to its text and value. */
import { invalidRequest, invalidRequests, type ServiceError } from "../../base/errors.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Commas and opening brackets that a body may have. One of full size whose texts are nothing else has fewer. */
const maxItems = 200_000;
/** Bodies up to this size hold too few items to count. */
const uncountedBytes = 262_144;

export interface ParsedJson {
  readonly text: string;
  readonly value: unknown;
}

/**
 * Throws `invalid_request` for what is no JSON in UTF-8, and for so many items that reading them would keep other
 * callers waiting: they are counted in the bytes, which costs a tenth of it.
 */
export function parseJson(body: Uint8Array): ParsedJson {
  if (body.byteLength > uncountedBytes && countItems(body) > maxItems)
    throw invalidRequest("", "json.max_items", "body has too many members and items");
  let text: string;
  try {
    text = utf8.decode(body);
  } catch (cause) {
    throw refusal("json.utf8", "body is not UTF-8", cause);
  }
  try {
    return { text, value: JSON.parse(text) };
  } catch (cause) {
    const message = text === "" ? "body is empty; a JSON object is expected" : "body is not JSON";
    throw refusal("json.syntax", message, cause);
  }
}

/** Counts at most a little over `maxItems`. */
function countItems(body: Uint8Array): number {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  let items = 0;
  for (const byte of [0x2c, 0x5b, 0x7b]) {
    for (let at = bytes.indexOf(byte); at !== -1 && items <= maxItems; at = bytes.indexOf(byte, at + 1)) items++;
  }
  return items;
}

function refusal(rule: string, message: string, cause: unknown): ServiceError {
  return invalidRequests([{ field: "", rule, message }], cause);
}
