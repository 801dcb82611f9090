/** Bytes of the JSON routes to protobuf messages. */
import { type DescMessage, fromJson, fromJsonString, type JsonValue, type Message } from "@bufbuild/protobuf";
import { invalidRequests } from "../../base/errors.ts";
import { checkJson } from "../json/check.ts";
import { jsonFaults, type MessageRules } from "../json/faults.ts";
import { parseJson } from "../json/parse.ts";

const noRules: MessageRules = () => [];

/**
 * Reads a request. Throws `invalid_request` where the JSON has a fault, with the broken rules of what could be read.
 * Does not check the rules of a message that can be read as it is.
 *
 * @param desc descriptor from the registry of the JSON routes
 * @param rules none where the JSON alone is of interest
 */
export function decodeRequest(desc: DescMessage, body: Uint8Array, rules: MessageRules = noRules): Message {
  const parsed = parseJson(body);
  if (checkJson(desc, parsed.value, "rest").length > 0) throw invalidRequests(jsonFaults(desc, parsed, "rest", rules));
  try {
    // A text that is written again byte for byte has no member twice: the costly search for one is left out.
    const isWrittenAlike = JSON.stringify(parsed.value) === parsed.text;
    return isWrittenAlike ? fromJson(desc, parsed.value as JsonValue) : fromJsonString(desc, parsed.text);
  } catch (cause) {
    // Syntax, names, types and text are good at this point: what protobuf-es still refuses is a member given twice.
    const faults = jsonFaults(desc, parsed, "rest", rules);
    const somewhere = { field: "", rule: "json.duplicate_member", message: "a member is given more than once" };
    throw invalidRequests(faults.length > 0 ? faults : [somewhere], cause);
  }
}
