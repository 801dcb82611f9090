import type { RandomFill } from "./ids.ts";

/** Requests up to this many bytes are served from what was drawn in advance: the random part of an id. */
const maxBufferedBytes = 16;

/**
 * The same source, asked less often for small amounts: asking costs more than the bytes. What was handed out is wiped
 * and never given again. Keys and openings are larger, so they are not among what is drawn in advance.
 *
 * @param sizeBytes drawn at a time; 16 or more
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
