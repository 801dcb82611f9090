/**
 * Length-prefixed messages of gRPC: one byte of flags, four bytes of length, the message
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
 */

import { invalidMessage, undeclaredCompression, wrongMessageCount } from "../calls/errors.ts";
import { bodyTooLarge } from "../http/body.ts";

/** Bytes before each message. */
export const frameHeaderBytes = 5;
/** The other bits are reserved, and ignored. */
const compressedFlag = 1;

/**
 * The one message in a body, parsed. Throws where there is none, more than one, a compressed one or an incomplete
 * one; what follows the message is looked at only once that is parsed, as Connect's own implementation does.
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

/** Puts the prefix before a message. */
export function encodeFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(frameHeaderBytes + message.byteLength);
  frame[0] = 0;
  frame.writeUInt32BE(message.byteLength, 1);
  frame.set(message, frameHeaderBytes);
  return frame;
}
