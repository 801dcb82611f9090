/**
 * Counts the records of a protobuf message before it is parsed (https://protobuf.dev/programming-guides/encoding). A
 * record takes two bytes and becomes an object, so the cost of a message is bounded by what a request may hold, not by
 * what was sent.
 */
import { type DescField, type DescMessage, fromBinary, type Message, ScalarType } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { invalidRequests, ServiceError, type Violation } from "../../base/errors.ts";
import { rememberedBy } from "../../base/remembered.ts";
import { isFree, isOpen, itemLimit } from "./contract.ts";

/** Records, including those of nested messages and unknown fields. The largest valid request has about 250. */
const maxRecords = 2048;
/** The same for messages that may have unknown members: no more than their limit in JSON allows. */
const maxOpenRecords = 32_768;
/** Nesting depth of messages; parsing refuses more. */
const maxDepth = 100;
/** Messages up to this size are not counted. */
const smallBytes = 4096;

/** Unknown fields are dropped. */
export const binaryOptions = { readUnknownFields: false };

/**
 * Parses a message, and drops unknown fields. Throws `invalid_request` if it is malformed, or has more records than any
 * request.
 */
export function readBinary(desc: DescMessage, message: Uint8Array): Message {
  try {
    requireFewRecords(desc, message);
    return fromBinary(desc, message, binaryOptions);
  } catch (thrown) {
    throw thrown instanceof ServiceError ? thrown : notProtobuf();
  }
}

/** Refuses a message that cannot be parsed. */
export function notProtobuf(): ServiceError {
  return invalidRequests([{ field: "", rule: "protobuf", message: "message is not valid protobuf" }]);
}

/**
 * Throws `invalid_request` for a message with more records than any request has, naming the lists and maps that exceed
 * their limits, and an Error for one whose records end early or do not have their field's type.
 */
function requireFewRecords(desc: DescMessage, message: Uint8Array): void {
  if (message.byteLength <= smallBytes) return;
  const most = isOpen(desc) ? maxOpenRecords : maxRecords;
  const walk = new Walk(message, most);
  walk.message(message.byteLength, desc, "");
  if (walk.records <= most) return;
  const found = [...walk.items].flatMap(([path, { field, count }]) => itemLimit(field)(count, path) ?? []);
  throw invalidRequests(found.length > 0 ? found : [tooManyFields]);
}

const tooManyFields: Violation = { field: "", rule: "protobuf.max_fields", message: "message has too many fields" };

/** Field number of the value in a map entry. */
const mapValue = 2;

class Walk {
  records = 0;
  /** Items of lists and maps, by path. */
  readonly items = new Map<string, { readonly field: DescField; count: number }>();
  readonly #reader: BinaryReader;
  readonly #most: number;

  constructor(bytes: Uint8Array, most: number) {
    this.#reader = new BinaryReader(bytes);
    this.#most = most;
  }

  /**
   * Walks the records up to `end`; stops early once there are too many.
   *
   * @param prefix of the paths of lists and maps; undefined in a free object, whose lists and maps have no limits
   * @throws Error if a record ends early, is malformed or does not have its field's type
   */
  message(end: number, desc: DescMessage, prefix: string | undefined, depth = 1): void {
    if (depth > maxDepth) throw new Error("messages are nested too deep");
    const fields = fieldsOf(desc);
    this.#records(end, (number, wireType) => {
      const field = fields.get(number);
      if (field === undefined) return this.#skip(wireType);
      requireType(wireType, wireTypeOf(field));
      const path = prefix === undefined ? undefined : prefix + field.name;
      const isMany = field.fieldKind === "list" || field.fieldKind === "map";
      const at = isMany && path !== undefined ? `[${this.#count(field, path)}]` : "";
      const inner = (desc: DescMessage, end: number) =>
        this.message(end, desc, path === undefined || isFree(desc) ? undefined : `${path}${at}.`, depth + 1);
      if (field.fieldKind === "map") {
        const entryEnd = this.#endWithin(end);
        this.#records(entryEnd, (number, wireType) => {
          if (number !== mapValue || field.mapKind !== "message") return this.#skip(wireType);
          requireType(wireType, WireType.LengthDelimited);
          inner(field.message, this.#endWithin(entryEnd));
        });
      } else if (field.message !== undefined) inner(field.message, this.#endWithin(end));
      else this.#skip(wireType);
    });
  }

  /** Calls `visit` before the value of each record, which it must consume. */
  #records(end: number, visit: (number: number, wireType: WireType) => void): void {
    const reader = this.#reader;
    // Records in a group are counted, but no request has groups.
    let groups = 0;
    while (reader.pos < end && this.records <= this.#most) {
      this.records += 1;
      const [number, wireType] = reader.tag();
      if (wireType === WireType.EndGroup) groups -= 1;
      else if (groups === 0) visit(number, wireType);
      else this.#skip(wireType);
      if (wireType === WireType.StartGroup) groups += 1;
    }
    requireWithin(reader.pos, end);
  }

  /** Skips a value. The records of a group are counted one by one. */
  #skip(wireType: WireType): void {
    if (wireType !== WireType.StartGroup) this.#reader.skip(wireType);
  }

  /** Reads the length of a value, and returns the value's end. */
  #endWithin(outerEnd: number): number {
    const bytes = this.#reader.uint32();
    const end = this.#reader.pos + bytes;
    requireWithin(end, outerEnd);
    return end;
  }

  /** Returns the position of the item. */
  #count(field: DescField, path: string): number {
    const counted = this.items.get(path) ?? { field, count: 0 };
    this.items.set(path, counted);
    return counted.count++;
  }
}

function requireWithin(position: number, end: number): void {
  if (position > end) throw new RangeError("the record ends early");
}

function requireType(wireType: WireType, expected: WireType): void {
  if (wireType !== expected) throw new Error("the record is of another type");
}

const fieldsOf = rememberedBy((desc: DescMessage) => new Map(desc.fields.map((field) => [field.number, field])));

/** Wire type of a field's records; the packed type if the field may be packed. Requests have no other fixed numbers. */
function wireTypeOf(field: DescField): WireType {
  if (field.fieldKind === "enum") return WireType.Varint;
  if (field.fieldKind !== "scalar") return WireType.LengthDelimited;
  if (field.scalar === ScalarType.DOUBLE) return WireType.Bit64;
  const isText = field.scalar === ScalarType.STRING || field.scalar === ScalarType.BYTES;
  return isText ? WireType.LengthDelimited : WireType.Varint;
}
