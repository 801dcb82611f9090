/** Decodes bytes of the JSON routes to protobuf messages. */
import { type DescMessage, fromJson, type JsonValue, type Message } from "@bufbuild/protobuf";
import { invalidRequests } from "../../base/errors.ts";
import { isOpen } from "../codec/check.ts";
import { jsonFaults, type MessageRules } from "../codec/faults.ts";
import { type ParsedJson, parseJson, parseText } from "../codec/parse.ts";
import { messageReader, type Reader } from "./reader.ts";

const noRules: MessageRules = () => [];

const readers = new WeakMap<DescMessage, Reader>();

/**
 * Reads a request. Throws `invalid_request` if the JSON has a fault, with the broken rules of its readable members.
 * Does not check the rules of a message without faults.
 *
 * @param desc descriptor from the registry of the JSON routes
 * @param rules none to report faults of the JSON only
 */
export function decodeRequest(desc: DescMessage, body: Uint8Array, rules: MessageRules = noRules): Message {
  return decodeParsed(desc, parseJson(desc, body), rules);
}

/** Reads a part of a request in the same way. */
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
 * Whether no member is given twice, because serializing yields the same text, and no text is unstorable, because that
 * would need an escape. May be false for good text.
 */
function isPlain({ text, value }: ParsedJson): boolean {
  return !text.includes("\\u") && JSON.stringify(value) === text;
}

function decodeChecked(desc: DescMessage, parsed: ParsedJson, rules: MessageRules): Message {
  const faults = jsonFaults(desc, parsed, "rest", rules);
  if (faults.length > 0) throw invalidRequests(faults);
  // Syntax, names, types and text are valid at this point, without duplicates.
  return fromJson(desc, parsed.value as JsonValue, { ignoreUnknownFields: isOpen(desc) });
}
