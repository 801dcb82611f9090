/** Where data comes from and goes to: files, and streams of any size. */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { constants, type FileHandle, lstat, mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { CID } from "multiformats/cid";
import { create as createDigest } from "multiformats/hashes/digest";
import { EnforcementError } from "./errors.ts";
import { chunksOf, PartialFile } from "./files.ts";

/** Path of a file, or a stream of bytes. */
export type Input = string | AsyncIterable<Uint8Array>;
/** Path of a file that is made, or a stream that is written to and left open. */
export type Output = string | Writable;

/** Told how many bytes were worked on since the last time. */
export type Count = (sizeBytes: number) => void;

/** A name for bytes, in two spellings. */
export interface Digest {
  readonly digest: string;
  /** CIDv1, raw, SHA-256. */
  readonly cid: string;
}

/** Passes pieces on and, when all have passed, knows their digest and size. */
export class Digesting {
  readonly #hash = createHash("sha256");
  sizeBytes = 0;

  update(piece: Uint8Array): void {
    this.#hash.update(piece);
    this.sizeBytes += piece.length;
  }

  finish(): Digest {
    const digest = this.#hash.digest();
    const rawCodec = 0x55;
    const sha256Code = 0x12;
    return {
      digest: `sha256:${digest.toString("hex")}`,
      cid: CID.createV1(rawCodec, createDigest(sha256Code, digest)).toString(),
    };
  }
}

/** Digest of a whole file. */
export async function digestOf(file: FileHandle, count: Count = () => {}): Promise<Digest & { sizeBytes: number }> {
  const digesting = new Digesting();
  for await (const chunk of chunksOf(file)) {
    digesting.update(chunk);
    count(chunk.length);
  }
  return { ...digesting.finish(), sizeBytes: digesting.sizeBytes };
}

/** Opens a file to read. Rejects with `invalid` where that cannot be, or it is no regular file. */
export async function openFile(path: string): Promise<FileHandle> {
  let file: FileHandle | undefined;
  try {
    // Opening a FIFO would wait for ever for whoever writes to it; and what has the name may change before it is opened.
    file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    if (!(await file.stat()).isFile()) throw new Error("it is no regular file");
    return file;
  } catch (cause) {
    await file?.close();
    throw new EnforcementError("invalid", `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

/** The bytes of a regular file. Rejects with `invalid` where it cannot be read, or has more than so many. */
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
 * An input that can be read more than once. A stream is put into a file without a name first: whether ciphertext may be
 * opened is asked about the whole of it, and signed data is verified whole before any of it is released to a stream.
 */
export async function rereadable(input: Input, directory: string): Promise<FileHandle> {
  if (typeof input === "string") return openFile(input);
  await mkdir(directory, { recursive: true, mode: 0o700 });
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

/** Takes what an operation makes. */
export interface Sink {
  write(piece: Uint8Array): Promise<void>;
  /** All of it is durable, under no name yet. */
  sync(): Promise<void>;
  commit(): Promise<void>;
  abandon(): Promise<void>;
}

/** Opens the output. Rejects with `exists` where a file is there that may not be replaced. */
export async function openSink(output: Output, replace: boolean): Promise<Sink> {
  if (typeof output !== "string") return streamSink(output);
  if (!replace) await requireAbsent(output);
  const file = await PartialFile.create(output);
  return {
    write: (piece) => file.write(piece),
    sync: () => file.sync(),
    commit: () => file.commit({ replace }),
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
  const onError = (error: Error) => {
    failure = error;
  };
  stream.on("error", onError);
  const settle = async () => {
    stream.off("error", onError);
  };
  return {
    async write(piece) {
      if (failure !== undefined || stream.destroyed) throw failure ?? new Error("the output was closed");
      // The piece is used again once this resolves, and a stream keeps what it cannot write at once.
      if (stream.write(Buffer.from(piece))) return;
      const closed = once(stream, "close").then(() => {
        throw failure ?? new Error("the output was closed");
      });
      await Promise.race([once(stream, "drain"), closed]);
      closed.catch(() => {});
    },
    async sync() {},
    commit: settle,
    abandon: settle,
  };
}
