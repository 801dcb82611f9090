/** Bytes of the JSON routes to protobuf messages. */
import { type DescMessage, fromJson, type JsonValue, type Message } from "@bufbuild/protobuf";
import { invalidRequests } from "../../base/errors.ts";
import { isOpen } from "../codec/check.ts";
import { jsonFaults, type MessageRules } from "../codec/faults.ts";
import { type ParsedJson, parseJson, parseText } from "../codec/parse.ts";
import { messageReader, type Reader } from "./reader.ts";

const noRules: MessageRules = () => [];

const readers = new WeakMap<DescMessage, Reader>();

/**
 * Reads a request. Throws `invalid_request` where the JSON has a fault, with the broken rules of what could be read.
 * Does not check the rules of a message that can be read as it is.
 *
 * @param desc descriptor from the registry of the JSON routes
 * @param rules none where the JSON alone is of interest
 */
export function decodeRequest(desc: DescMessage, body: Uint8Array, rules: MessageRules = noRules): Message {
  return decodeParsed(desc, parseJson(desc, body), rules);
}

/** The same for a part of a request. */
export function decodePart(desc: DescMessage, text: string, rules: MessageRules): Message {
  return decodeParsed(desc, parseText(desc, text), rules);
}

function decodeParsed(desc: DescMessage, parsed: ParsedJson, rules: MessageRules): Message {
  const message = readerOf(desc)(parsed.value);
  return message !== undefined && isPlain(parsed) ? message : decodeChecked(desc, parsed, rules);
}

function readerOf(desc: DescMessage): Reader {
  let reader = readers.get(desc);
  if (reader === undefined) {
    reader = messageReader(desc);
    readers.set(desc, reader);
  }
  return reader;
}

/**
 * Whether no member is there twice, because the text is written again byte for byte, and no text is such that it cannot
 * be stored, because that would come as an escape. False for much that is good too.
 */
function isPlain({ text, value }: ParsedJson): boolean {
  return !text.includes("\\u") && JSON.stringify(value) === text;
}

function decodeChecked(desc: DescMessage, parsed: ParsedJson, rules: MessageRules): Message {
  const faults = jsonFaults(desc, parsed, "rest", rules);
  if (faults.length > 0) throw invalidRequests(faults);
  // Syntax, names, types and text are good at this point, and nothing is there twice.
  return fromJson(desc, parsed.value as JsonValue, { ignoreUnknownFields: isOpen(desc) });
}
