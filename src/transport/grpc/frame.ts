/** Length-prefixed messages of gRPC (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). */
import { bodyTooLarge, prefixBytes as frameHeaderBytes } from "../../http/body.ts";
import { invalidMessage, undeclaredCompression, wrongMessageCount } from "../calls/errors.ts";

export { frameHeaderBytes };

/** The other bits are reserved and ignored. */
const compressedFlag = 1;

export interface FrameRules {
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
    const start = at + frameHeaderBytes;
    if (body.length < start) throw incomplete();
    const flags = body[at] as number;
    const length = body.readUInt32BE(at + 1);
    if (length > maxBytes) throw bodyTooLarge();
    at = start + length;
    if (body.length < at) throw incomplete();
    const bytes = body.subarray(start, at);
    const isCompressed = (flags & compressedFlag) !== 0;
    if (isCompressed && inflate === undefined) throw undeclaredCompression();
    const plain = isCompressed && inflate !== undefined ? await inflate(bytes) : bytes;
    if ((flags & ignoredFlag) !== 0) continue;
    const message = parse(plain);
    if (only !== undefined) throw wrongMessageCount();
    only = message;
  }
  if (only === undefined) throw wrongMessageCount();
  return only;
}

function incomplete() {
  return invalidMessage("decode", "message could not be decoded");
}

export function encodeFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(frameHeaderBytes + message.byteLength);
  frame[0] = 0;
  frame.writeUInt32BE(message.byteLength, 1);
  frame.set(message, frameHeaderBytes);
  return frame;
}
