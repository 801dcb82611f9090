/** Splits a stream of bytes into lines. */
import { PackError, refuse } from "./format.ts";

export interface NumberedLine {
  /** From 1. */
  readonly number: number;
  /** Without its newline. */
  readonly text: string;
  readonly bytes: Uint8Array;
}

const newline = 0x0a;

/**
 * Lines of UTF-8 that each end with a newline. Memory: the longest line and one chunk. Rejects with a PackError at a
 * line of more than `maxBytes`, newline included, at one that is not UTF-8, and if the last newline is missing.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<NumberedLine> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let parts: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  for await (const chunk of chunks) {
    let begin = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, begin)) {
      parts.push(chunk.subarray(begin, end));
      length += end - begin;
      if (length >= maxBytes) refuse(number, "is too long");
      const bytes = Buffer.concat(parts, length);
      yield { number, bytes, text: decode(decoder, bytes, number) };
      number += 1;
      parts = [];
      length = 0;
      begin = end + 1;
    }
    parts.push(chunk.subarray(begin));
    length += chunk.length - begin;
    if (length >= maxBytes) refuse(number, "is too long");
  }
  if (length > 0) throw new PackError(`line ${number}: is cut off`);
}

function decode(decoder: TextDecoder, bytes: Uint8Array, number: number): string {
  try {
    return decoder.decode(bytes);
  } catch {
    return refuse(number, "is not UTF-8");
  }
}
