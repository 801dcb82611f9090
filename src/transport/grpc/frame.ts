/** Length-prefixed messages of gRPC (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). */

import { bodyTooLarge } from "../../http/body.ts";
import { invalidMessage, undeclaredCompression, wrongMessageCount } from "../calls/errors.ts";

export const frameHeaderBytes = 5;
/** The other bits are reserved and ignored. */
const compressedFlag = 1;

/**
 * Parses the only message in a body. Throws if there is none, more than one, a compressed one or an incomplete one. As
 * in Connect's implementation, what follows the message is checked after parsing it.
 */
export function decodeOnly<T>(body: Buffer, maxBytes: number, parse: (message: Uint8Array) => T): T {
  if (body.length === 0) throw wrongMessageCount();
  const message = parse(messageAt(body, 0, maxBytes));
  const end = frameHeaderBytes + body.readUInt32BE(1);
  if (body.length === end) return message;
  parse(messageAt(body, end, maxBytes));
  throw wrongMessageCount();
}

function messageAt(body: Buffer, offset: number, maxBytes: number): Uint8Array {
  const start = offset + frameHeaderBytes;
  if (body.length < start) throw invalidMessage("decode", "message could not be decoded");
  const length = body.readUInt32BE(offset + 1);
  if (length > maxBytes) throw bodyTooLarge();
  if (body.length < start + length) throw invalidMessage("decode", "message could not be decoded");
  if (((body[offset] ?? 0) & compressedFlag) !== 0) throw undeclaredCompression();
  return body.subarray(start, start + length);
}

export function encodeFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(frameHeaderBytes + message.byteLength);
  frame[0] = 0;
  frame.writeUInt32BE(message.byteLength, 1);
  frame.set(message, frameHeaderBytes);
  return frame;
}
