/** Decompression of request messages, in pieces: a few bytes may expand a thousandfold. Answers are never compressed. */
import type { Duplex } from "node:stream";
import { createBrotliDecompress, createGunzip } from "node:zlib";
import { ServiceError } from "../../base/errors.ts";
import { type BodyLimits, bodyTooLarge } from "../../http/body.ts";
import { invalidMessage } from "../calls/refusals.ts";

const pieceBytes = 64 * 1024;

/** @param heldBytes bytes that the lease already holds for the body */
export type Decompress = (
  bytes: Uint8Array,
  heldBytes: number,
  limits: Pick<BodyLimits, "maxBytes" | "lease">,
) => Promise<Buffer>;

export const decompressors: ReadonlyMap<string, Decompress> = new Map([
  ["gzip", through(() => createGunzip({ chunkSize: pieceBytes }))],
  ["br", through(() => createBrotliDecompress({ chunkSize: pieceBytes }))],
]);

/** As a header lists them. */
export const acceptedEncodings = [...decompressors.keys()].join(",");

/** Throws `body_too_large`, `overloaded`, or `invalid_request` if the bytes are not of the encoding. */
function through(create: () => Duplex): Decompress {
  return async (bytes, heldBytes, { maxBytes, lease }) => {
    if (bytes.byteLength === 0) return Buffer.alloc(0);
    const stream = create();
    const parts: Buffer[] = [];
    let sizeBytes = 0;
    try {
      stream.end(bytes);
      for await (const part of stream as AsyncIterable<Buffer>) {
        sizeBytes += part.byteLength;
        if (sizeBytes > maxBytes) throw bodyTooLarge();
        lease.holds(heldBytes + sizeBytes);
        parts.push(part);
      }
    } catch (error) {
      throw error instanceof ServiceError ? error : invalidMessage("decode", "message could not be decoded");
    } finally {
      stream.destroy();
    }
    return Buffer.concat(parts);
  };
}
