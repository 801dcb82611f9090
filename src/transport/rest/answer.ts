/**
 * Encodes answers of the JSON routes: every member that is not optional is present, and 64-bit integers are numbers. It
 * is compiled from the descriptor, which is faster than protobuf-es, with which a test compares it. `bench/parts.ts`
 * measures libraries.
 */
import { type DescEnum, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { Edition, FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { formatBase64 } from "../../base/text-forms.ts";
import { mapInTurns } from "../../base/timers.ts";
import { itemField } from "../codec/items.ts";
import { restWords } from "../codec/normal-form.ts";

/** Converts a member to what `JSON.stringify` writes. Throws if it has another type. */
type Convert = (value: never) => unknown;

/** In characters. Longer texts, such as proofs, are converted to bytes one by one. */
const longLength = 128;

/**
 * Returns the encoder of a message type. Throws a TypeError for a type with a field of a kind that no answer has.
 */
export function answerEncoder(desc: DescMessage): (message: Message) => ByteText {
  // Characters of the answer that are bytes of long texts beyond ASCII; undefined while texts stay unchanged.
  let beyondAscii: number | undefined;
  const convert = compile(desc, (text) => {
    // JSON escapes a lone surrogate, which would be lost here.
    if (beyondAscii === undefined || isAscii(text) || !text.isWellFormed()) return text;
    const bytes = toByteText(text);
    beyondAscii += Buffer.byteLength(bytes) - bytes.length;
    return bytes;
  });
  return (message) => {
    beyondAscii = 0;
    const text = JSON.stringify(convert(message as never));
    if (Buffer.byteLength(text) - text.length === beyondAscii) return text as ByteText;
    // Short texts have more characters beyond ASCII, which is rare: convert the whole answer.
    beyondAscii = undefined;
    return toByteText(JSON.stringify(convert(message as never)));
  };
}

/**
 * Returns the same, except that the encoder of a type with items, such as a bulk answer, yields to the event loop
 * between groups of items.
 */
export function pausingEncoder(desc: DescMessage): (message: Message) => ByteText | Promise<ByteText> {
  const field = itemField(desc);
  const encodeRest = answerEncoder(desc);
  if (field === undefined) return encodeRest;
  const encodeItem = answerEncoder(field.message);
  return async (message) => {
    const { items, ...rest } = message as Message & { readonly items: readonly Message[] };
    const texts = await mapInTurns(items, encodeItem);
    // This text cannot occur within the answer, where quotes are escaped.
    const empty = '"items":[]';
    const [before = "", after = ""] = encodeRest({ ...rest, items: [] } as Message).split(empty);
    return `${before}"items":[${texts.join(",")}]${after}` as ByteText;
  };
}

interface Member {
  readonly localName: string;
  readonly name: string;
  readonly convert: Convert;
}

function compile(desc: DescMessage, long: (text: string) => string): Convert {
  // Well-known types have special JSON forms.
  if (desc.file.edition !== Edition.EDITION_PROTO3 || desc.typeName.startsWith("google.protobuf."))
    throw unsupported(desc);
  const members = desc.fields
    .toSorted((a, b) => a.number - b.number)
    .map((field): Member => {
      const { name, localName } = field;
      const convert = converter(field, long);
      if (field.presence === FeatureSet_FieldPresence.IMPLICIT) return { localName, name, convert };
      // `JSON.stringify` leaves out what is undefined.
      return { localName, name, convert: (value) => (value === undefined ? undefined : convert(value)) };
    });
  return (message: Readonly<Record<string, unknown>>) => {
    const json: Record<string, unknown> = {};
    for (const { localName, name, convert } of members) json[name] = convert(message[localName] as never);
    return json;
  };
}

function converter(field: DescField, long: (text: string) => string): Convert {
  if (field.oneof !== undefined) throw unsupported(field);
  switch (field.fieldKind) {
    case "message":
      return compile(field.message, long);
    case "enum":
      return enumName(field.enum);
    case "scalar": {
      const convert = field.scalar === ScalarType.STRING ? textConverter(long) : scalars.get(field.scalar);
      if (convert !== undefined) return convert;
      break;
    }
    case "list": {
      if (field.listKind === "scalar") {
        if (field.scalar !== ScalarType.STRING) break;
        return texts;
      }
      const convert = field.listKind === "enum" ? enumName(field.enum) : compile(field.message, long);
      return (list: readonly never[]) => list.map(convert);
    }
    case "map":
      if (field.mapKey === ScalarType.STRING && field.scalar === ScalarType.STRING) return textMap;
  }
  throw unsupported(field);
}

function unsupported(of: DescField | DescMessage): TypeError {
  return new TypeError(`${of} is of a kind that answers cannot have`);
}

/** Not converted to bytes, as texts of lists. */
function textMap(map: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  for (const value of Object.values(map)) ofType("string", value);
  return map;
}

function textConverter(long: (text: string) => string): Convert {
  return (value: unknown) => {
    const text = ofType("string", value) as string;
    return text.length < longLength ? text : long(text);
  };
}

/** Not converted to bytes: texts of lists are short and rarely beyond ASCII. */
function texts(list: readonly unknown[]): readonly unknown[] {
  for (const item of list) ofType("string", item);
  return list;
}

/** A value without a name is written as its number. */
function enumName(desc: DescEnum): Convert {
  const names = restWords(desc);
  return (value: unknown) => names.get(value as number) ?? ofType("number", value);
}

const scalars: ReadonlyMap<ScalarType, Convert> = new Map<ScalarType, Convert>([
  [ScalarType.BOOL, (value: unknown) => ofType("boolean", value)],
  [ScalarType.BYTES, (value: Uint8Array) => formatBase64(value)],
  [ScalarType.INT32, (value: unknown) => ofType("number", value)],
  [ScalarType.INT64, (value: unknown) => Number(ofType("bigint", value))],
]);

/** Returns the value. Throws if it has another type. */
function ofType(name: "string" | "boolean" | "number" | "bigint", value: unknown): unknown {
  if (typeof value !== name) throw new TypeError(`a member of an answer is no ${name}`);
  return value;
}

declare const brand: unique symbol;

/**
 * UTF-8 bytes as text with one character (U+0000 to U+00FF) per byte: it is written as `latin1`, and its length is its
 * size in bytes. Node writes it together with the headers, and several times faster than text with a character beyond
 * U+00FF, such as the signature lines of a proof.
 */
export type ByteText = string & { readonly [brand]: "ByteText" };

/** A lone surrogate becomes U+FFFD. */
export function toByteText(text: string): ByteText {
  return (isAscii(text) ? text : Buffer.from(text).toString("latin1")) as ByteText;
}

/** Whether every character is ASCII, so that the text is its own `ByteText`. */
function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length;
}
