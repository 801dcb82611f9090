/** Sources and destinations of data: files, and streams of any size. */
import { createHash, randomBytes } from "node:crypto";
import { constants, type FileHandle, lstat, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Writable } from "node:stream";
import { CID } from "multiformats/cid";
import { create as createDigest } from "multiformats/hashes/digest";
import { EnforcementError, enforcementError, failureOfSystem } from "./errors.ts";
import { alone, chunksOf, ownFolder, PartialFile } from "./files.ts";
import { receiptsPathOf } from "./receipts.ts";

/** Path of a file, or a stream of bytes. */
export type Input = string | AsyncIterable<Uint8Array>;
/** Path of a new file, or a stream that is written to and left open. */
export type Output = string | Writable;

/** Called with the number of bytes processed since the last call. */
export type Count = (sizeBytes: number) => void;

/** Digest of bytes, in two spellings. */
export interface Digest {
  readonly digest: string;
  /** CIDv1, raw, SHA-256. */
  readonly cid: string;
}

/** Passes pieces on, and has their digest and size after the last. */
export class Digesting {
  readonly #hash = createHash("sha256");
  sizeBytes = 0;

  update(piece: Uint8Array): void {
    this.#hash.update(piece);
    this.sizeBytes += piece.length;
  }

  finish(): Digest {
    return spelled(this.#hash.digest());
  }
}

/** Digest of bytes in memory. */
export function digestOfBytes(bytes: Uint8Array): Digest {
  const digesting = new Digesting();
  digesting.update(bytes);
  return digesting.finish();
}

/** A digest in both spellings. Throws `invalid` if it is no SHA-256. */
export function digestNamed(digest: string): Digest {
  if (!/^sha256:[0-9a-f]{64}$/.test(digest)) throw new EnforcementError("invalid", "a digest is sha256: and 64 digits");
  return spelled(Buffer.from(digest.slice("sha256:".length), "hex"));
}

function spelled(digest: Buffer): Digest {
  const rawCodec = 0x55;
  const sha256Code = 0x12;
  return {
    digest: `sha256:${digest.toString("hex")}`,
    cid: CID.createV1(rawCodec, createDigest(sha256Code, digest)).toString(),
  };
}

/** Digest of a whole file, or of pieces. */
export async function digestOf(
  data: FileHandle | AsyncIterable<Uint8Array>,
  count: Count = () => {},
): Promise<Digest & { sizeBytes: number }> {
  const digesting = new Digesting();
  for await (const chunk of Symbol.asyncIterator in data ? data : chunksOf(data)) {
    digesting.update(chunk);
    count(chunk.length);
  }
  return { ...digesting.finish(), sizeBytes: digesting.sizeBytes };
}

/** A path unchanged, or the pieces of a stream, which rejects with `io_failed` if it breaks. */
export function unbroken(input: Input): Input {
  return typeof input === "string" ? input : streamed(input);
}

/** Pieces of a stream. Rejects with `io_failed` if it breaks. */
export async function* streamed(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* stream;
  } catch (cause) {
    throw broken("input", cause);
  }
}

function broken(stream: "input" | "output", cause: unknown): EnforcementError {
  if (cause instanceof EnforcementError) return cause;
  return new EnforcementError("io_failed", `the ${stream} broke: ${enforcementError(cause).message}`, { cause });
}

/** Opens a file for reading. Rejects with `invalid` if it cannot be opened or is not a regular file. */
export async function openFile(path: string): Promise<FileHandle> {
  let file: FileHandle | undefined;
  try {
    // Opening a FIFO would block until a writer opens it, and the file may be replaced before it is opened.
    file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    if (!(await file.stat()).isFile()) throw new Error("it is no regular file");
    return file;
  } catch (cause) {
    await file?.close();
    throw new EnforcementError(failureOfSystem(cause), `${path} cannot be read: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/** Reads a regular file. Rejects with `invalid` if it cannot be read, or is larger than `maxBytes`. */
export async function readSmallFile(path: string, maxBytes: number): Promise<Buffer> {
  const file = await openFile(path);
  try {
    const pieces: Uint8Array[] = [];
    let sizeBytes = 0;
    for await (const piece of chunksOf(file)) {
      sizeBytes += piece.length;
      if (sizeBytes > maxBytes) throw new EnforcementError("invalid", `${path} is larger than ${maxBytes} bytes`);
      pieces.push(Uint8Array.from(piece));
    }
    return Buffer.concat(pieces);
  } finally {
    await file.close();
  }
}

/**
 * An input that can be read twice. A stream is first written to an unnamed file: permission to open ciphertext is about
 * the whole of it, and signed data is verified completely before any of it goes to a stream.
 */
export async function rereadable(input: Input, directory: string): Promise<FileHandle> {
  if (typeof input === "string") return openFile(input);
  await ownFolder(dirname(directory));
  await ownFolder(directory);
  const path = join(directory, `passing-${randomBytes(12).toString("hex")}`);
  const file = await open(path, "wx+", 0o600);
  try {
    await rm(path);
    for await (const piece of input) await file.write(piece);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Destination of an operation's output. */
export interface Sink {
  write(piece: Uint8Array): Promise<void>;
  /** Makes everything durable, without its name yet. */
  sync(): Promise<void>;
  /** Gives it its name and, in the same step, runs `place`. */
  commit(place?: () => Promise<void>): Promise<void>;
  abandon(): Promise<void>;
}

/** Opens the output. Rejects with `exists` if a file exists and must not be replaced. */
export async function openSink(output: Output, replace: boolean): Promise<Sink> {
  if (typeof output !== "string") return streamSink(output);
  if (!replace) await requireAbsent(output);
  const file = await PartialFile.create(output);
  return {
    write: (piece) => file.write(piece),
    sync: () => file.sync(),
    // Another writer of the name does all of this either before, and then this one fails, or afterwards.
    commit: (place) =>
      alone(receiptsPathOf(output), async () => {
        if (!replace) await requireAbsent(output);
        await place?.();
        try {
          await file.commit({ replace });
        } catch (error) {
          if (place !== undefined) await rm(receiptsPathOf(output), { force: true });
          throw error;
        }
      }),
    abandon: () => file.abandon(),
  };
}

/** Rejects with `exists`. */
export async function requireAbsent(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found !== undefined) throw new EnforcementError("exists", `${path} is there already`);
}

function streamSink(stream: Writable): Sink {
  let failure: Error | undefined;
  /** Wakes the waiter of the last write. */
  let wake = () => {};
  let last: Promise<void> = Promise.resolve();
  const settle = (error: Error) => {
    failure ??= error;
    wake();
  };
  const onClose = () => settle(new Error("it was closed"));
  stream.on("error", settle);
  stream.on("close", onClose);
  const requireWhole = () => {
    if (failure !== undefined || stream.destroyed) throw broken("output", failure ?? new Error("it was closed"));
  };
  const leave = async () => {
    stream.off("close", onClose);
    // A failed stream may emit its error later.
    if (failure === undefined) stream.off("error", settle);
  };
  return {
    async write(piece) {
      requireWhole();
      let isFull = false;
      last = new Promise((resolve) => {
        wake = resolve;
        // The piece is reused after this resolves, but a stream keeps what it cannot write at once.
        isFull = !stream.write(Buffer.from(piece), (error) => {
          failure ??= error ?? undefined;
          resolve();
        });
      });
      if (isFull) await last;
      requireWhole();
    },
    async sync() {
      await last;
      requireWhole();
    },
    commit: leave,
    abandon: leave,
  };
}
