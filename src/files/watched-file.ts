/** A file that is watched by polling: changes take effect within seconds. */
import type { Timers } from "../base/timers.ts";

/** The part of `node:fs/promises` that is used. Both reject with an error that has a `code`. */
export interface WatchedFileSystem {
  stat(path: string): Promise<{
    readonly mtimeMs: number;
    readonly size: number;
    readonly ino: number;
    /** Absent: it is one. */
    isFile?(): boolean;
  }>;
  readFile(path: string, encoding: "utf8"): Promise<string>;
}

export interface WatchedFileOptions<Content> {
  readonly path: string;
  /** Throws where the text is invalid; the message says why and repeats nothing secret. */
  readonly parse: (text: string) => Content | Promise<Content>;
  readonly files: WatchedFileSystem;
  readonly timers: Timers;
  /** Called once for each change that is not taken, with the reason. Must not throw. */
  readonly onProblem: (problem: string) => void;
}

const pollIntervalMs = 2_000;

/**
 * Holds the last valid content: a file that goes missing or becomes invalid changes nothing until it is valid again.
 * Replace it atomically, by renaming another over it.
 */
export class WatchedFile<Content> {
  readonly #options: WatchedFileOptions<Content>;
  #current: Content;
  #seen: string;
  #revision = 0;
  #problem: string | undefined;
  #cancel = () => {};
  #closed = false;

  private constructor(options: WatchedFileOptions<Content>, current: Content, seen: string) {
    this.#options = options;
    this.#current = current;
    this.#seen = seen;
    this.#scheduleNext();
  }

  /** Reads it for the first time. Rejects where it cannot be read or is not what it should be. */
  static async open<Content>(options: WatchedFileOptions<Content>): Promise<WatchedFile<Content>> {
    const seen = await signature(options);
    const content = await options.parse(await options.files.readFile(options.path, "utf8"));
    return new WatchedFile(options, content, seen);
  }

  get current(): Content {
    return this.#current;
  }

  /** Another number each time that the content changed. */
  get revision(): number {
    return this.#revision;
  }

  /** Follows it no longer; idempotent. */
  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  #scheduleNext(): void {
    if (this.#closed) return;
    this.#cancel = this.#options.timers.after(
      pollIntervalMs,
      () => void this.#poll().finally(() => this.#scheduleNext()),
    );
  }

  async #poll(): Promise<void> {
    const { files, path, parse, onProblem } = this.#options;
    try {
      const seen = await signature(this.#options);
      if (seen === this.#seen) return;
      // Noted before it is read: a change in between is seen again.
      const content = await parse(await files.readFile(path, "utf8"));
      this.#seen = seen;
      this.#current = content;
      this.#revision += 1;
      this.#problem = undefined;
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      if (problem !== this.#problem) onProblem(problem);
      this.#problem = problem;
    }
  }
}

async function signature<Content>({ files, path }: WatchedFileOptions<Content>): Promise<string> {
  const stats = await files.stat(path);
  // To read a FIFO would wait for whoever writes to it.
  if (stats.isFile?.() === false) throw new Error(`${path} is not a regular file`);
  const { mtimeMs, size, ino } = stats;
  return `${mtimeMs} ${size} ${ino}`;
}
