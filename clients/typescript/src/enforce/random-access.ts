/** Bytes that can be read at any position: a file, an object of a store, or a buffer. */
import type { FileHandle } from "node:fs/promises";
import { openFile } from "./data.ts";
import { EnforcementError, enforcementError } from "./errors.ts";
import { malformed } from "./header.ts";

/** Where ciphertext is read from. It must not change while it is used. */
export interface RandomAccess {
  readonly sizeBytes: number;
  /** Reads so many bytes, which are within the size. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** Bytes in memory. */
export function bytesSource(bytes: Uint8Array): RandomAccess {
  return {
    sizeBytes: bytes.length,
    read: async (offset, length) => bytes.subarray(offset, offset + length),
  };
}

/** An open file, with its size now. */
export async function fileSource(file: FileHandle): Promise<RandomAccess> {
  const { size } = await file.stat();
  return {
    sizeBytes: size,
    async read(offset, length) {
      const bytes = Buffer.allocUnsafe(length);
      let done = 0;
      while (done < length) {
        const { bytesRead } = await file.read(bytes, done, length - done, offset + done);
        if (bytesRead === 0) break;
        done += bytesRead;
      }
      return bytes.subarray(0, done);
    },
  };
}

/** Runs the work with the source, and closes a file that it opened for it. */
export async function withSource<T>(
  input: string | RandomAccess,
  work: (source: RandomAccess) => Promise<T>,
): Promise<T> {
  if (typeof input !== "string") return work(input);
  const file = await openFile(input);
  try {
    return await work(await fileSource(file));
  } finally {
    await file.close();
  }
}

/** Reads so many bytes. Rejects with `not_authentic` if they are not there, and with `io_failed` if reading fails. */
export async function readAt(source: RandomAccess, position: number, sizeBytes: number): Promise<Buffer> {
  const isWithin = Number.isSafeInteger(position) && position >= 0 && position + sizeBytes <= source.sizeBytes;
  if (!isWithin) throw malformed("it is too short");
  const bytes = await source.read(position, sizeBytes).catch((cause: unknown) => {
    if (cause instanceof EnforcementError) throw cause;
    throw new EnforcementError("io_failed", `the input broke: ${enforcementError(cause).message}`, { cause });
  });
  if (bytes.length !== sizeBytes) throw malformed("it is too short");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** All bytes from the start, in pieces. */
export async function* piecesOf(source: RandomAccess, pieceBytes = 1_048_576): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < source.sizeBytes; at += pieceBytes)
    yield await readAt(source, at, Math.min(pieceBytes, source.sizeBytes - at));
}
