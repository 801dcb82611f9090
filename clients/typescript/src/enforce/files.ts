/**
 * Files that exist completely or not at all: written beside their final name, synced, and then renamed. Files of a
 * killed process are removed by the next one that works on the same name.
 */
import { createHash, randomBytes, randomInt } from "node:crypto";
import { type FileHandle, link, mkdir, open, readdir, rename, stat, unlink } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { EnforcementError, failureOfSystem } from "./errors.ts";
import { isRunning, ownProcess } from "./processes.ts";

const chunkBytes = 1_048_576;

/** Pieces of a file from its start, each valid until the next is requested, which is read ahead. */
export async function* chunksOf(file: FileHandle): AsyncGenerator<Uint8Array> {
  const buffers = [Buffer.allocUnsafe(chunkBytes), Buffer.allocUnsafe(chunkBytes)] as const;
  let position = 0;
  const read = (turn: number) => {
    const reading = file.read(turn % 2 === 0 ? buffers[0] : buffers[1], 0, chunkBytes, position);
    // Ignored if iteration stops early.
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

/** Carries out the work on a path for all callers that wait at the same time: it begins after each of their calls. */
function shared<Result>(work: (path: string) => Promise<Result>): (path: string) => Promise<Result> {
  const running = new Map<string, Promise<Result>>();
  const next = new Map<string, Promise<Result>>();
  return (path) => {
    const begin = () => {
      next.delete(path);
      const working = work(path).finally(() => {
        if (running.get(path) === working) running.delete(path);
      });
      running.set(path, working);
      return working;
    };
    const earlier = running.get(path);
    if (earlier === undefined) return begin();
    // It began before this call.
    const waiting = next.get(path) ?? earlier.then(begin, begin);
    next.set(path, waiting);
    return waiting;
  };
}

const namesIn = shared((path) => readdir(path).catch((): string[] => []));

/** A file under a temporary name until it is complete. */
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

  /** Opens it, readable by its owner only, and removes files of killed processes for the same name. */
  static async create(finalPath: string): Promise<PartialFile> {
    await sweepPartials(finalPath);
    const { file, path } = await openPartial(finalPath);
    return new PartialFile(file, path, finalPath);
  }

  /** Copies the piece, which is written while the next one is produced. */
  async write(piece: Uint8Array): Promise<void> {
    this.#waiting.push(Uint8Array.from(piece));
    this.#waitingBytes += piece.length;
    if (this.#waitingBytes < chunkBytes) return;
    await this.#writing;
    this.#writing = this.#flush();
    // The next write reports it.
    this.#writing.catch(() => {});
  }

  async #flush(): Promise<void> {
    let pieces = this.#waiting.filter(({ length }) => length > 0);
    this.#waiting = [];
    this.#waitingBytes = 0;
    while (pieces.length > 0) {
      let { bytesWritten } = await this.#file.writev(pieces);
      // A nearly full disk accepts a part.
      pieces = pieces.flatMap((piece) => {
        const skipped = Math.min(bytesWritten, piece.length);
        bytesWritten -= skipped;
        return skipped === piece.length ? [] : [piece.subarray(skipped)];
      });
    }
  }

  /** Syncs what was written, before it is referred to. */
  async sync(): Promise<void> {
    await this.#writing;
    await this.#flush();
    await this.#file.sync();
  }

  /** Gives it its name. Rejects with `exists` if the name is taken and must not be replaced. */
  async commit({ replace }: { readonly replace: boolean }): Promise<void> {
    await this.sync();
    if (replace) await rename(this.#path, this.#finalPath);
    else {
      try {
        // Unlike a rename, this fails if the name exists.
        await link(this.#path, this.#finalPath);
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw cause;
        throw new EnforcementError("exists", `${this.#finalPath} is there already`, { cause });
      }
      await unlink(this.#path);
    }
    await syncDirectory(dirname(this.#finalPath));
    await this.#file.close();
  }

  /** Removes it, unless it has its name. */
  async abandon(): Promise<void> {
    await this.#writing.catch(() => {});
    await this.#file.close().catch(() => {});
    await removeFile(this.#path);
  }
}

/** Writes a small file completely, replacing an existing one. */
export async function replaceFile(path: string, bytes: Uint8Array): Promise<void> {
  await writeWhole(path, bytes, true);
}

/** Writes a small file completely; rejects with `exists` if the name exists. */
export async function createFile(path: string, bytes: Uint8Array): Promise<void> {
  await writeWhole(path, bytes, false);
}

/** Adds bytes to a file; durable when it resolves. */
export async function appendFile(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, "a", 0o600);
  try {
    await file.appendFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
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

/** Creates a file whose temporary name identifies its process. */
async function openPartial(finalPath: string): Promise<{ readonly file: FileHandle; readonly path: string }> {
  const { pid, started } = ownProcess();
  const suffix = [hostMark(), pid, started, randomBytes(6).toString("hex")].join("-");
  const path = join(dirname(finalPath), `${partialPrefix(finalPath)}${suffix}${partialSuffix}`);
  try {
    return { file: await open(path, "wx", 0o600), path };
  } catch (cause) {
    throw new EnforcementError(failureOfSystem(cause), `${dirname(finalPath)} takes no file`, { cause });
  }
}

/** Process ids are only valid on one machine. */
const hostMark = () => createHash("sha256").update(hostname()).digest("hex").slice(0, 12);

/** Removes partial files of this name whose process is gone. Resolves with how many are left of this machine. */
export async function sweepPartials(finalPath: string): Promise<number> {
  let left = 0;
  const prefix = partialPrefix(finalPath);
  for (const name of await namesIn(dirname(finalPath))) {
    if (!name.startsWith(prefix) || !name.endsWith(partialSuffix)) continue;
    const [host, pid, started, ...others] = name.slice(prefix.length, -partialSuffix.length).split("-");
    if (host !== hostMark() || pid === undefined || started === undefined || others.length !== 1) continue;
    if (isRunning({ pid: Number(pid), started })) left++;
    else await removeFile(join(dirname(finalPath), name));
  }
  return left;
}

/** The longest pause between two attempts, in milliseconds. */
const maxPauseMs = 256;

/**
 * Runs the work while no other process of this machine does so under the same name. Each process announces itself with
 * a file; if there is another's, it removes its own and retries later. The file of a killed process does not count.
 */
export async function alone<T>(name: string, work: () => Promise<T>): Promise<T> {
  const claimed = `${name}.placing`;
  for (let pauseMs = 2; ; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
    const { file, path } = await openPartial(claimed);
    try {
      if ((await sweepPartials(claimed)) === 1) return await work();
    } finally {
      await file.close();
      await removeFile(path);
    }
    await setTimeout(randomInt(pauseMs));
  }
}

/** Creates a folder of this user. Rejects with `invalid` if others may write to it, because its content is trusted. */
export const ownFolder = shared(async (path) => {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await requireOwn(path);
});

/** Rejects with `invalid` if others than its owner may write to the folder. */
export async function requireOwn(path: string): Promise<void> {
  if (process.platform !== "win32" && ((await stat(path)).mode & 0o022) !== 0)
    throw new EnforcementError("invalid", `${path} is writable by others than its owner: make it 0700`);
}

/** Removes a file if it is there. */
export async function removeFile(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
}

/** Makes renames durable. Windows does not support this and does not need it. */
export const syncDirectory = shared(async (path) => {
  if (process.platform === "win32") return;
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
});
