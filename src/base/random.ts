import type { RandomFill } from "./ids.ts";

/** Requests up to this many bytes, such as those for ids, are served from the buffer. */
const maxBufferedBytes = 16;

/**
 * Buffers a random source for small requests, because a call costs more than the bytes. Used bytes are wiped and never
 * returned again. Keys and openings are larger, so they never come from the buffer.
 *
 * @param sizeBytes drawn at a time; at least 16
 */
export function bufferedRandom(fill: RandomFill, sizeBytes = 4096): RandomFill {
  const drawn = new Uint8Array(sizeBytes);
  let used = sizeBytes;
  return (bytes) => {
    if (bytes.byteLength > maxBufferedBytes) return fill(bytes);
    if (used + bytes.byteLength > sizeBytes) {
      fill(drawn);
      used = 0;
    }
    const end = used + bytes.byteLength;
    bytes.set(drawn.subarray(used, end));
    drawn.fill(0, used, end);
    used = end;
    return bytes;
  };
}
