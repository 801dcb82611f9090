/** Files that are polled and reloaded together; changes take effect within seconds. */
import { messageOf } from "../base/errors.ts";
import type { Timers } from "../base/timers.ts";

interface FileState {
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  readonly size: number;
  readonly ino: number;
  readonly mode: number;
  isFile(): boolean;
}

/** The used part of `node:fs/promises`; follows links. Both reject with an error that has a `code`. */
interface WatchedFileSystem {
  stat(path: string): Promise<FileState>;
  readFile(path: string, encoding: "utf8"): Promise<string>;
}

export interface FileRead {
  readonly text: string;
  /** Permission bits. */
  readonly permissions: number;
}

interface WatchedFilesOptions<Content> {
  readonly paths: readonly string[];
  /**
   * Parses the files, in the order of the paths, to one content; `current` is absent the first time. Throws if they are
   * not valid together; the message holds no secret.
   */
  readonly parse: (files: readonly FileRead[], current: Content | undefined) => Content | Promise<Content>;
  readonly files: WatchedFileSystem;
  readonly timers: Timers;
  /** Applies a change. If it rejects, the previous content stays, and it is called again later. */
  readonly onChange?: (content: Content, texts: readonly string[]) => void | Promise<void>;
  /** Called once for each change that is refused, with the reason, if the problem lasts. Must not throw. */
  readonly onProblem: (problem: string) => void;
  /** Called when the files equal the content in force again after a problem. Must not throw. */
  readonly onRecovered?: () => void;
}

const pollIntervalMs = 2_000;
/** Files that changed are checked again after this time, and read if they have not changed since. */
const settleMs = 250;

/**
 * Holds the last valid content: missing or invalid files change nothing until they are valid again. Steps of a change
 * may be up to `settleMs` apart, and no problem is reported if the change is complete by the next poll. Best is one
 * step: renaming a file over the old one, or switching a link to a folder, as orchestrators do.
 */
export class WatchedFiles<Content> {
  readonly #options: WatchedFilesOptions<Content>;
  #current: Content;
  #texts: readonly string[];
  /** Signatures of the files that were last loaded, examined, and found invalid. */
  #taken: string;
  #looked: string;
  #bad: string | undefined;
  #revision = 0;
  #told: string | undefined;
  #working: Promise<void> = Promise.resolve();
  #cancel = () => {};
  #closed = false;

  private constructor(
    options: WatchedFilesOptions<Content>,
    { content, texts, seen }: { content: Content; texts: readonly string[]; seen: string },
  ) {
    this.#options = options;
    this.#current = content;
    this.#texts = texts;
    this.#taken = seen;
    this.#looked = seen;
    this.#lookIn(pollIntervalMs);
  }

  /** Reads the files for the first time. Rejects if they cannot be read or are invalid. */
  static async open<Content>(options: WatchedFilesOptions<Content>): Promise<WatchedFiles<Content>> {
    const seen = await signature(options);
    const found = await read(options);
    const content = await options.parse(found, undefined);
    return new WatchedFiles(options, { content, texts: textsOf(found), seen });
  }

  get current(): Content {
    return this.#current;
  }

  get texts(): readonly string[] {
    return this.#texts;
  }

  /** Changes with the content. */
  get revision(): number {
    return this.#revision;
  }

  /** Reloads the files now, without waiting for a change to settle. Does not reject. */
  reload(): Promise<void> {
    return this.#alone(async () => {
      const seen = await signature(this.#options).catch(messageOf);
      this.#looked = seen;
      this.#bad = seen;
      await this.#take(seen);
    });
  }

  /** Stops polling. Idempotent. */
  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  #lookIn(delayMs: number): void {
    if (this.#closed) return;
    this.#cancel = this.#options.timers.after(delayMs, () => {
      let nextMs = pollIntervalMs;
      void this.#alone(async () => {
        nextMs = await this.#look();
      }).finally(() => this.#lookIn(nextMs));
    });
  }

  /** Returns the time until the next poll, in milliseconds. */
  async #look(): Promise<number> {
    const seen = await signature(this.#options).catch(messageOf);
    if (seen === this.#taken) {
      this.#looked = seen;
      this.#settle(seen);
      return pollIntervalMs;
    }
    const hasStayed = seen === this.#looked;
    this.#looked = seen;
    if (!hasStayed) return settleMs;
    await this.#take(seen);
    return pollIntervalMs;
  }

  async #take(seen: string): Promise<void> {
    const { parse, onChange, onProblem } = this.#options;
    try {
      const found = await read(this.#options);
      const content = await parse(found, this.#current);
      const texts = textsOf(found);
      // The files changed while they were read; the next poll decides.
      if ((await signature(this.#options)) !== seen) return;
      if (texts.some((text, index) => text !== this.#texts[index])) {
        await onChange?.(content, texts);
        this.#texts = texts;
        this.#current = content;
        this.#revision += 1;
      }
      this.#settle(seen);
    } catch (error) {
      const problem = messageOf(error);
      if (this.#bad === seen && this.#told !== problem) {
        this.#told = problem;
        onProblem(problem);
      }
      this.#bad = seen;
    }
  }

  #settle(seen: string): void {
    const wasTold = this.#told !== undefined;
    this.#taken = seen;
    this.#bad = undefined;
    this.#told = undefined;
    if (wasTold) this.#options.onRecovered?.();
  }

  #alone(work: () => Promise<void>): Promise<void> {
    this.#working = this.#working.then(() => (this.#closed ? undefined : work()));
    return this.#working;
  }
}

async function signature<Content>({ files, paths }: WatchedFilesOptions<Content>): Promise<string> {
  const states = await Promise.all(paths.map((path) => files.stat(path)));
  return states
    .map(({ mtimeMs, ctimeMs, size, ino, mode }) => [mtimeMs, ctimeMs, size, ino, mode].join(" "))
    .join("\n");
}

async function read<Content>({ files, paths }: WatchedFilesOptions<Content>): Promise<FileRead[]> {
  return Promise.all(
    paths.map(async (path) => {
      const state = await files.stat(path);
      // Reading a pipe would block.
      if (!state.isFile()) throw new Error(`${path} is not a regular file`);
      return { text: await files.readFile(path, "utf8"), permissions: state.mode & 0o7777 };
    }),
  );
}

function textsOf(found: readonly FileRead[]): readonly string[] {
  return found.map(({ text }) => text);
}
