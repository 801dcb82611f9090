/**
 * Length-prefixed messages of gRPC: one byte of flags, four bytes of length, the message
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
 */
import { ServiceError } from "../../base/errors.ts";
import { bodyTooLarge } from "../body.ts";

/** Bytes before each message. */
export const frameHeaderBytes = 5;

/** The one message in a body. Throws where there is none, more than one, a compressed one or an incomplete one. */
export function decodeFrame(body: Buffer, maxBytes: number): Uint8Array {
  if (body.length === 0) throw refuse("cardinality", "exactly one request message is expected");
  if (body.length < frameHeaderBytes) throw refuse("decode", "message could not be decoded");
  const length = body.readUInt32BE(1);
  if (length > maxBytes) throw bodyTooLarge();
  const end = frameHeaderBytes + length;
  if (body.length < end) throw refuse("decode", "message could not be decoded");
  if (body[0] !== 0) throw refuse("decode", "message could not be decoded");
  if (body.length > end) throw refuse("cardinality", "exactly one request message is expected");
  return body.subarray(frameHeaderBytes, end);
}

/** Puts the prefix before a message. */
export function encodeFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(frameHeaderBytes + message.byteLength);
  frame[0] = 0;
  frame.writeUInt32BE(message.byteLength, 1);
  frame.set(message, frameHeaderBytes);
  return frame;
}

function refuse(rule: string, message: string): ServiceError {
  return new ServiceError("invalid_request", message, { violations: [{ field: "", rule, message }] });
}
