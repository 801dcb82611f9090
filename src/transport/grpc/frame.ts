/** Length-prefixed messages of gRPC (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). */
import { type DescField, type DescMessage, type Message, ScalarType, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { invalidRequest } from "../../base/errors.ts";
import { bodyTooLarge, prefixBytes } from "../../http/body.ts";
import { undeclaredCompression, wrongMessageCount } from "../calls/refusals.ts";

/** The other bits are reserved and ignored. */
const compressedFlag = 1;

interface FrameRules {
  readonly maxBytes: number;
  /** Absent if the request declares no encoding. */
  readonly inflate?: ((message: Uint8Array) => Promise<Uint8Array>) | undefined;
  /** Frames with this flag are no messages. */
  readonly ignoredFlag: number;
}

/**
 * Parses the only message in a body. Throws if there is none, more than one, a compressed one without an encoding, or an
 * incomplete one. As in Connect's implementation, what follows the message is checked after parsing it.
 */
export async function readOnly<T extends object>(
  body: Buffer,
  { maxBytes, inflate, ignoredFlag }: FrameRules,
  parse: (message: Uint8Array) => T,
): Promise<T> {
  let only: T | undefined;
  for (let at = 0; at < body.length; ) {
    const start = at + prefixBytes;
    if (body.length < start) throw incomplete();
    const flags = body[at] as number;
    const length = body.readUInt32BE(at + 1);
    if (length > maxBytes) throw bodyTooLarge();
    at = start + length;
    if (body.length < at) throw incomplete();
    const isCompressed = (flags & compressedFlag) !== 0;
    if (isCompressed && inflate === undefined) throw undeclaredCompression();
    // Unread: a body holds thousands of small frames that would each expand to the limit.
    if ((flags & ignoredFlag) !== 0) continue;
    const bytes = body.subarray(start, at);
    const message = parse(isCompressed && inflate !== undefined ? await inflate(bytes) : bytes);
    if (only !== undefined) throw wrongMessageCount();
    only = message;
  }
  if (only === undefined) throw wrongMessageCount();
  return only;
}

function incomplete() {
  return invalidRequest("", "decode", "message could not be decoded");
}

export function encodeFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(prefixBytes + message.byteLength);
  frame[0] = 0;
  frame.writeUInt32BE(message.byteLength, 1);
  frame.set(message, prefixBytes);
  return frame;
}

// Encodes answers as such messages, byte for byte as `toBinary` does; a test compares the two. One buffer serves all
// answers of a method, while `toBinary` grows a new one for each.

type Values = Readonly<Record<string, unknown>>;
type Write = (writer: BinaryWriter, message: Values) => void;

/** Larger buffers are not kept. */
const maxKeptBytes = 64 * 1024;
const emptyHeader = new Uint8Array(prefixBytes);

/**
 * Returns the encoder of a message type. Unknown fields are not written, because answers have none. A type with fields
 * of an unsupported kind is left to `toBinary`.
 */
export function frameEncoder(desc: DescMessage): (message: Message) => Buffer {
  const write = compile(desc);
  if (write === undefined) return (message) => encodeFrame(toBinary(desc, message));
  let writer = new BinaryWriter();
  return (message) => {
    writer.raw(emptyHeader);
    try {
      write(writer, message as unknown as Values);
    } catch (error) {
      writer = new BinaryWriter(); // discards what was written so far
      throw error;
    }
    const bytes = writer.finish();
    if (bytes.byteLength > maxKeptBytes) writer = new BinaryWriter();
    const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    frame.writeUInt32BE(bytes.byteLength - prefixBytes, 1);
    return frame;
  };
}

/** Undefined if a field has an unsupported kind, or the type contains itself. */
function compile(desc: DescMessage, outer: readonly DescMessage[] = []): Write | undefined {
  if (outer.includes(desc)) return undefined;
  const writes: Write[] = [];
  for (const field of desc.fields.toSorted((a, b) => a.number - b.number)) {
    const write = compileField(field, [...outer, desc]);
    if (write === undefined) return undefined;
    writes.push(write);
  }
  return (writer, message) => {
    for (const write of writes) write(writer, message);
  };
}

function compileField(field: DescField, outer: readonly DescMessage[]): Write | undefined {
  const { localName, number } = field;
  if (field.oneof !== undefined) return undefined;
  switch (field.fieldKind) {
    case "message": {
      // Messages hold the value of a wrapper, not the wrapper.
      const isPlain = !field.delimitedEncoding && !isWrapperDesc(field.message);
      const write = isPlain ? compile(field.message, outer) : undefined;
      return write && ((writer, message) => writeMessage(writer, number, message[localName], write));
    }
    case "enum":
      return valueWrite(field, ScalarType.INT32);
    case "scalar":
      return valueWrite(field, field.scalar);
    case "list": {
      if (field.listKind === "scalar" && field.scalar === ScalarType.STRING) {
        return (writer, message) => {
          for (const item of message[localName] as readonly string[])
            writer.tag(number, WireType.LengthDelimited).string(item);
        };
      }
      const write =
        field.listKind === "message" && !field.delimitedEncoding ? compile(field.message, outer) : undefined;
      return (
        write &&
        ((writer, message) => {
          for (const item of message[localName] as readonly Values[]) writeMessage(writer, number, item, write);
        })
      );
    }
    case "map":
      return field.mapKey === ScalarType.STRING && field.scalar === ScalarType.STRING ? textMap(field) : undefined;
    default:
      return undefined;
  }
}

/** Each entry is a message with key and value, both always written. */
function textMap({ localName, number }: DescField): Write {
  return (writer, message) => {
    for (const [key, value] of Object.entries(message[localName] as Readonly<Record<string, string>>)) {
      writer.tag(number, WireType.LengthDelimited).fork();
      writer.tag(1, WireType.LengthDelimited).string(key).tag(2, WireType.LengthDelimited).string(value);
      writer.join();
    }
  };
}

/** The writer's method for a type, and the wire type. */
const scalars = new Map([
  [ScalarType.STRING, ["string", WireType.LengthDelimited]],
  [ScalarType.BYTES, ["bytes", WireType.LengthDelimited]],
  [ScalarType.BOOL, ["bool", WireType.Varint]],
  [ScalarType.INT32, ["int32", WireType.Varint]],
  [ScalarType.INT64, ["int64", WireType.Varint]],
] as const);

function valueWrite({ localName, number, proto }: DescField, scalar: ScalarType): Write | undefined {
  const [method, wireType] = scalars.get(scalar as ScalarType.STRING) ?? [];
  if (method === undefined || wireType === undefined) return undefined;
  const write = BinaryWriter.prototype[method] as (this: BinaryWriter, value: unknown) => unknown;
  const isOptional = proto.proto3Optional;
  // A default is left out, unless the member has presence.
  const isDefault =
    method === "bytes" ? (value: unknown) => (value as Uint8Array).length === 0 : (value: unknown) => !value;
  return (writer, message) => {
    const value = message[localName];
    if (value !== undefined && (isOptional || !isDefault(value))) write.call(writer.tag(number, wireType), value);
  };
}

function writeMessage(writer: BinaryWriter, number: number, value: unknown, write: Write): void {
  if (value === undefined) return;
  writer.tag(number, WireType.LengthDelimited).fork();
  write(writer, value as Values);
  writer.join();
}
