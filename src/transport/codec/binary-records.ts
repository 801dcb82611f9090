/**
 * Counts the records of a protobuf message before it is parsed (https://protobuf.dev/programming-guides/encoding). A
 * record takes two bytes and becomes an object, so the cost of a message is bounded by what a request may hold, not by
 * what was sent.
 */
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { invalidRequests, type ServiceError, type Violation } from "../../base/errors.ts";
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

/** Refuses a message that cannot be parsed. */
export function notProtobuf(): ServiceError {
  return invalidRequests([{ field: "", rule: "protobuf", message: "message is not valid protobuf" }]);
}

/**
 * Throws `invalid_request` for a message with more records than any request has, naming the lists and maps that exceed
 * their limits, and for one whose records end early or do not have their field's type.
 */
export function requireFewRecords(desc: DescMessage, message: Uint8Array): void {
  if (message.byteLength <= smallBytes) return;
  const most = isOpen(desc) ? maxOpenRecords : maxRecords;
  const walk = new Walk(message, most);
  walk.message(0, message.byteLength, desc, "");
  if (walk.records <= most) return;
  const found = [...walk.items.entries()].flatMap(([{ field, path }, items]) => itemLimit(field)(items, path) ?? []);
  throw invalidRequests(found.length > 0 ? found : [tooManyFields]);
}

const tooManyFields: Violation = { field: "", rule: "protobuf.max_fields", message: "message has too many fields" };

/** Field number of the value in a map entry. */
const mapValue = 2;

interface Counted {
  readonly field: DescField;
  readonly path: string;
}

class Walk {
  records = 0;
  readonly items = new Map<Counted, number>();
  readonly #bytes: Uint8Array;
  readonly #most: number;
  readonly #counted = new Map<string, Counted>();
  #at = 0;

  constructor(bytes: Uint8Array, most: number) {
    this.#bytes = bytes;
    this.#most = most;
  }

  /**
   * Walks the records from `start` to `end`; stops early once there are too many.
   *
   * @param prefix of the paths of lists and maps; undefined in a free object, whose lists and maps have no limits
   */
  message(start: number, end: number, desc: DescMessage, prefix: string | undefined, depth = 1): void {
    if (depth > maxDepth) throw notProtobuf();
    const fields = fieldsOf(desc);
    this.#records(start, end, (number, wireType, from, to) => {
      const field = fields.get(number);
      if (field === undefined) return;
      if (wireType !== wireTypeOf(field)) throw notProtobuf();
      const path = prefix === undefined ? undefined : prefix + field.name;
      const isMany = field.fieldKind === "list" || field.fieldKind === "map";
      const at = isMany && path !== undefined ? `[${this.#count(field, path)}]` : "";
      const inner = (desc: DescMessage, from: number, to: number) =>
        this.message(from, to, desc, path === undefined || isFree(desc) ? undefined : `${path}${at}.`, depth + 1);
      if (field.fieldKind === "map")
        this.#records(from, to, (number, _, from, to) => {
          if (field.mapKind === "message" && number === mapValue) inner(field.message, from, to);
        });
      else if (field.message !== undefined) inner(field.message, from, to);
    });
  }

  #records(
    start: number,
    end: number,
    visit: (number: number, wireType: WireType, from: number, to: number) => void,
  ): void {
    let at = start;
    // Records in a group are counted, but no request has groups.
    let groups = 0;
    while (at < end && this.records <= this.#most) {
      this.records += 1;
      const tag = this.#varint(at, end);
      const number = tag >>> 3;
      const wireType = (tag & 7) as WireType;
      const value = this.#at;
      if (number === 0) throw notProtobuf();
      at = this.#endOf(wireType, value, end);
      if (wireType === WireType.EndGroup) groups -= 1;
      else if (groups === 0) visit(number, wireType, this.#at, at);
      if (wireType === WireType.StartGroup) groups += 1;
    }
  }

  /** Returns the end of a record's value; the value of a length-delimited one begins at `#at`. */
  #endOf(wireType: WireType, value: number, end: number): number {
    const length = (bytes: number) => {
      if (value + bytes > end) throw notProtobuf();
      return value + bytes;
    };
    switch (wireType) {
      case WireType.Varint:
        this.#varint(value, end);
        return this.#at;
      case WireType.Bit64:
        return length(8);
      case WireType.Bit32:
        return length(4);
      case WireType.LengthDelimited: {
        const bytes = this.#varint(value, end);
        if (this.#at + bytes > end) throw notProtobuf();
        return this.#at + bytes;
      }
      // The records of a group are counted one by one.
      case WireType.StartGroup:
      case WireType.EndGroup:
        return value;
      default:
        throw notProtobuf();
    }
  }

  /** Returns the low 32 bits of a varint of at most ten bytes, and moves `#at` behind it. */
  #varint(start: number, end: number): number {
    let result = 0;
    for (let i = 0; i < 10; i++) {
      const byte = this.#bytes[start + i];
      if (byte === undefined || start + i >= end) throw notProtobuf();
      if (i < 5) result |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        this.#at = start + i + 1;
        return result >>> 0;
      }
    }
    throw notProtobuf();
  }

  /** Returns the position of the item. */
  #count(field: DescField, path: string): number {
    let counted = this.#counted.get(path);
    if (counted === undefined) {
      counted = { field, path };
      this.#counted.set(path, counted);
    }
    const position = this.items.get(counted) ?? 0;
    this.items.set(counted, position + 1);
    return position;
  }
}

const fields = new WeakMap<DescMessage, ReadonlyMap<number, DescField>>();

function fieldsOf(desc: DescMessage): ReadonlyMap<number, DescField> {
  let known = fields.get(desc);
  if (known === undefined) {
    known = new Map(desc.fields.map((field) => [field.number, field]));
    fields.set(desc, known);
  }
  return known;
}

/** Wire type of a field's records; the packed type if the field may be packed. */
function wireTypeOf(field: DescField): WireType {
  if (field.fieldKind === "enum") return WireType.Varint;
  if (field.fieldKind !== "scalar") return WireType.LengthDelimited;
  return scalarWireTypes.get(field.scalar) ?? WireType.Varint;
}

const scalarWireTypes: ReadonlyMap<ScalarType, WireType> = new Map([
  [ScalarType.STRING, WireType.LengthDelimited],
  [ScalarType.BYTES, WireType.LengthDelimited],
  [ScalarType.DOUBLE, WireType.Bit64],
  [ScalarType.FIXED64, WireType.Bit64],
  [ScalarType.SFIXED64, WireType.Bit64],
  [ScalarType.FLOAT, WireType.Bit32],
  [ScalarType.FIXED32, WireType.Bit32],
  [ScalarType.SFIXED32, WireType.Bit32],
]);
