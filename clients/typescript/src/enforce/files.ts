/**
 * Files that are there whole or not at all: written beside their final name under one of their own, synced, and only
 * then given the name. What a killed process left is swept by the next that works on the same name.
 */
import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, link, open, readdir, rename, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { EnforcementError } from "./errors.ts";
import { isRunning, ownProcess } from "./processes.ts";

const chunkBytes = 1_048_576;

/** Pieces of a file from its beginning, each good until the next is asked for, which is being read meanwhile. */
export async function* chunksOf(file: FileHandle): AsyncGenerator<Uint8Array> {
  const buffers = [Buffer.allocUnsafe(chunkBytes), Buffer.allocUnsafe(chunkBytes)] as const;
  let position = 0;
  const read = (turn: number) => {
    const reading = file.read(turn % 2 === 0 ? buffers[0] : buffers[1], 0, chunkBytes, position);
    // Whoever leaves early does not hear of it.
    reading.catch(() => {});
    return reading;
  };
  let reading = read(0);
  for (let turn = 1; ; turn++) {
    const { bytesRead, buffer } = await reading;
    if (bytesRead === 0) return;
    position += bytesRead;
    reading = read(turn);
    yield buffer.subarray(0, bytesRead);
  }
}

/** A file under a name of its own, until it is whole. */
export class PartialFile {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #finalPath: string;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> = Promise.resolve();

  private constructor(file: FileHandle, path: string, finalPath: string) {
    this.#file = file;
    this.#path = path;
    this.#finalPath = finalPath;
  }

  /** Opens it, readable by its owner alone, and sweeps what killed processes left of the same name. */
  static async create(finalPath: string): Promise<PartialFile> {
    await sweepPartials(finalPath);
    const { pid, started } = ownProcess();
    const suffix = [hostMark(), pid, started, randomBytes(6).toString("hex")].join("-");
    const path = join(dirname(finalPath), `${partialPrefix(finalPath)}${suffix}${partialSuffix}`);
    try {
      return new PartialFile(await open(path, "wx", 0o600), path, finalPath);
    } catch (cause) {
      throw new EnforcementError("invalid", `${dirname(finalPath)} takes no file`, { cause });
    }
  }

  /** Takes a copy of the piece, which is written while the next one is made. */
  async write(piece: Uint8Array): Promise<void> {
    this.#waiting.push(Uint8Array.from(piece));
    this.#waitingBytes += piece.length;
    if (this.#waitingBytes < chunkBytes) return;
    await this.#writing;
    this.#writing = this.#flush();
    // The next one who writes hears of it.
    this.#writing.catch(() => {});
  }

  async #flush(): Promise<void> {
    let pieces = this.#waiting.filter(({ length }) => length > 0);
    this.#waiting = [];
    this.#waitingBytes = 0;
    while (pieces.length > 0) {
      let { bytesWritten } = await this.#file.writev(pieces);
      // A disk that fills up takes a part.
      pieces = pieces.flatMap((piece) => {
        const skipped = Math.min(bytesWritten, piece.length);
        bytesWritten -= skipped;
        return skipped === piece.length ? [] : [piece.subarray(skipped)];
      });
    }
  }

  /** Syncs what was written; only then may anything be said of it. */
  async sync(): Promise<void> {
    await this.#writing;
    await this.#flush();
    await this.#file.sync();
  }

  /** Gives it its name. Rejects with `exists` where the name is taken, unless it may be replaced. */
  async commit({ replace }: { readonly replace: boolean }): Promise<void> {
    await this.sync();
    if (replace) await rename(this.#path, this.#finalPath);
    else {
      try {
        // Unlike a rename, this fails where something has the name.
        await link(this.#path, this.#finalPath);
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw cause;
        throw new EnforcementError("exists", `${this.#finalPath} is there already`, { cause });
      }
      await rm(this.#path);
    }
    await syncDirectory(dirname(this.#finalPath));
    await this.#file.close();
  }

  /** Removes it, unless it has its name. */
  async abandon(): Promise<void> {
    await this.#writing.catch(() => {});
    await this.#file.close().catch(() => {});
    await rm(this.#path, { force: true });
  }
}

/** Writes a small file whole, replacing what has its name. */
export async function replaceFile(path: string, bytes: Uint8Array): Promise<void> {
  await writeWhole(path, bytes, true);
}

/** Writes a small file whole; rejects with `exists` where something has its name. */
export async function createFile(path: string, bytes: Uint8Array): Promise<void> {
  await writeWhole(path, bytes, false);
}

async function writeWhole(path: string, bytes: Uint8Array, replace: boolean): Promise<void> {
  const file = await PartialFile.create(path);
  try {
    await file.write(bytes);
    await file.commit({ replace });
  } catch (error) {
    await file.abandon();
    throw error;
  }
}

const partialSuffix = ".partial";
const partialPrefix = (finalPath: string) => `.${basename(finalPath)}.`;
/** Process ids mean something on one machine only. */
const hostMark = () => createHash("sha256").update(hostname()).digest("hex").slice(0, 12);

/** Removes partial files of this name whose process is gone. */
export async function sweepPartials(finalPath: string): Promise<void> {
  const prefix = partialPrefix(finalPath);
  const names = await readdir(dirname(finalPath)).catch(() => []);
  for (const name of names) {
    if (!name.startsWith(prefix) || !name.endsWith(partialSuffix)) continue;
    const [host, pid, started, ...others] = name.slice(prefix.length, -partialSuffix.length).split("-");
    if (host !== hostMark() || pid === undefined || started === undefined || others.length !== 1) continue;
    if (!isRunning({ pid: Number(pid), started })) await rm(join(dirname(finalPath), name), { force: true });
  }
}

/** What was renamed stays so after a loss of power. Windows has no such thing and needs none. */
export async function syncDirectory(path: string): Promise<void> {
  if (process.platform === "win32") return;
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
