/**
 * Items of bulk calls. They are taken out of a message before it is parsed, so that each is read and refused alone, in
 * its turn: a faulty item does not affect the others, and no call is parsed in one go.
 */
import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { invalidRequests, ServiceError } from "../../base/errors.ts";
import { notProtobuf, readBinary } from "./binary-records.ts";
import { itemLimit } from "./contract.ts";
import { decodeText, endOfString, notJson, readJson, type Spelling } from "./json-reader.ts";
import { rulesOf } from "./rules.ts";

export interface ItemSource {
  readonly count: number;
  /** Reads one item and checks its rules. Throws `ServiceError`, which names members by their paths in the item. */
  read(index: number): Message;
}

type MessageListField = DescField & { readonly fieldKind: "list"; readonly listKind: "message" };

/** Returns the items field of a bulk request; undefined for other requests. */
export function itemField(desc: DescMessage): MessageListField | undefined {
  return desc.fields.find(
    (field): field is MessageListField =>
      field.name === "items" && field.fieldKind === "list" && field.listKind === "message",
  );
}

/** How a message is sent: protobuf's binary form, or JSON in a spelling. */
type Form = Spelling | "binary";

/** Reads a request. Sets the items of a bulk call, whose message has none. Throws `invalid_request`. */
type ReadRequest = (bytes: Uint8Array, form: Form, call: { items?: ItemSource }) => Message;

/** @param maxItemBytes size of one item of a bulk call as sent */
export function requestReader(desc: DescMessage, maxItemBytes: number): ReadRequest {
  const field = itemField(desc);
  return (bytes, form, call) => {
    if (field === undefined) return readMessage(desc, bytes, form);
    const { rest, parts } = form === "binary" ? splitRecords(field, bytes) : splitItems(field, decodeText(bytes));
    const tooFew = { field: field.name, rule: "repeated.min_items", message: "must have at least 1 item" };
    if (parts.length === 0) throw invalidRequests([tooFew]);
    call.items = {
      count: parts.length,
      read(index) {
        const part = parts[index] as Uint8Array | string;
        if (Buffer.byteLength(part) > maxItemBytes)
          throw new ServiceError("body_too_large", "item exceeds the size limit of its single route");
        const message = readMessage(field.message, part, form);
        const violations = rulesOf(field.message)(message);
        if (violations.length > 0) throw invalidRequests(violations);
        return message;
      },
    };
    return readMessage(desc, rest, form);
  };
}

function readMessage(desc: DescMessage, message: Uint8Array | string, form: Form): Message {
  return form === "binary" ? readBinary(desc, message as Uint8Array) : readJson(desc, message, form);
}

/** A message without its items, and these. */
interface SplitMessage {
  readonly rest: Uint8Array | string;
  readonly parts: readonly (Uint8Array | string)[];
}

function requireFew(field: MessageListField): (count: number) => void {
  const limit = itemLimit(field);
  return (count) => {
    const tooMany = limit(count, field.name);
    if (tooMany !== undefined) throw invalidRequests([tooMany]);
  };
}

/**
 * Finds the items in the text of an object. Whether the text is JSON is checked by parsing the parts. Throws
 * `invalid_request` if there are too many.
 */
export function splitItems(field: MessageListField, text: string): SplitMessage {
  const texts: string[] = [];
  const mayHave = requireFew(field);
  let rest = "";
  let copied = 0;
  let depth = 0;
  // Name of the top-level member that is being read.
  let name: string | undefined;
  let expectsName = false;
  // Start of the item that is being read; undefined outside items.
  let begin: number | undefined;
  const end = (at: number) => {
    texts.push(text.slice(begin, at));
    mayHave(texts.length);
  };
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    switch (character) {
      case '"': {
        const close = endOfString(text, at);
        if (depth === 1 && expectsName) {
          name = text.slice(at + 1, close);
          expectsName = false;
        }
        at = close;
        break;
      }
      case "{":
      case "[":
        depth += 1;
        if (depth === 1) expectsName = character === "{";
        if (depth === 2 && character === "[" && name === field.name) {
          begin = at + 1;
          rest += text.slice(copied, begin);
        }
        break;
      case ",":
        if (depth === 1) expectsName = true;
        if (depth === 2 && begin !== undefined) {
          end(at);
          begin = at + 1;
        }
        break;
      case "]":
      case "}":
        if (depth === 2 && begin !== undefined) {
          if (texts.length > 0 || !isBlank(text.slice(begin, at))) end(at);
          begin = undefined;
          copied = at;
        }
        depth -= 1;
    }
  }
  if (begin !== undefined || texts.some(isBlank)) throw notJson();
  return { rest: rest + text.slice(copied), parts: texts };
}

/** White space of JSON (RFC 8259 §2), which is less than JavaScript's. */
function isBlank(text: string): boolean {
  return /^[ \t\n\r]*$/.test(text);
}

/** Most records beside the items; more are refused unread. */
const maxOtherRecords = 64;

function splitRecords(field: MessageListField, body: Uint8Array): SplitMessage {
  const items: Uint8Array[] = [];
  const others: Uint8Array[] = [];
  const reader = new BinaryReader(body);
  const mayHave = requireFew(field);
  try {
    while (reader.pos < reader.len) {
      const start = reader.pos;
      const [number, wireType] = reader.tag();
      if (number === field.number && wireType === WireType.LengthDelimited) {
        const length = reader.uint32();
        const from = reader.pos;
        if (from + length > reader.len) throw notProtobuf();
        items.push(body.subarray(from, from + length));
        reader.pos = from + length;
      } else {
        if (number === field.number || others.length === maxOtherRecords) throw notProtobuf();
        reader.skip(wireType, number);
        others.push(body.subarray(start, reader.pos));
      }
      mayHave(items.length);
    }
  } catch (thrown) {
    throw thrown instanceof ServiceError ? thrown : notProtobuf();
  }
  return { rest: Buffer.concat(others), parts: items };
}
