/** Files that are watched by polling, and taken up together: changes take effect within seconds. */
import type { Timers } from "../base/timers.ts";

export interface FileState {
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  readonly size: number;
  readonly ino: number;
  readonly mode: number;
  isFile(): boolean;
}

/** The part of `node:fs/promises` that is used; it follows links. Both reject with an error that has a `code`. */
export interface WatchedFileSystem {
  stat(path: string): Promise<FileState>;
  readFile(path: string, encoding: "utf8"): Promise<string>;
}

export interface FileRead {
  readonly text: string;
  /** Permission bits. */
  readonly permissions: number;
}

export interface WatchedFilesOptions<Content> {
  readonly paths: readonly string[];
  /**
   * Makes one content of the files, in the order of the paths; `current` is absent the first time. Throws where they are
   * not good together; the message says why and repeats nothing secret.
   */
  readonly parse: (files: readonly FileRead[], current: Content | undefined) => Content | Promise<Content>;
  readonly files: WatchedFileSystem;
  readonly timers: Timers;
  /** Puts in force what has changed; a rejection leaves the content before, and it is tried again. */
  readonly onChange?: (content: Content, texts: readonly string[]) => void | Promise<void>;
  /** Called once for each change that is not taken, with the reason, when it has lasted. Must not throw. */
  readonly onProblem: (problem: string) => void;
  /** After a problem the files are again what is in force. Must not throw. */
  readonly onRecovered?: () => void;
}

const pollIntervalMs = 2_000;
/** Files that change are looked at again after this time, and read when they have stayed as they are. */
const settleMs = 250;

/**
 * Holds the last valid content: files that go missing or become invalid change nothing until they are valid again.
 * Whoever replaces one file after the other, or writes one in pieces, does so unseen where it takes no longer than
 * `settleMs` between two steps, and without a problem being told where it is over by the next poll. Best is one step:
 * a file renamed over the one before, or a link to a folder, as orchestrators do.
 */
export class WatchedFiles<Content> {
  readonly #options: WatchedFilesOptions<Content>;
  #current: Content;
  #texts: readonly string[];
  /** What was last taken, looked at, and found bad. */
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

  /** Reads them for the first time. Rejects where they cannot be read or are not what they should be. */
  static async open<Content>(options: WatchedFilesOptions<Content>): Promise<WatchedFiles<Content>> {
    const seen = await signature(options);
    const found = await read(options);
    const content = await options.parse(found, undefined);
    return new WatchedFiles(options, { content, texts: textsOf(found), seen });
  }

  get current(): Content {
    return this.#current;
  }

  /** What `current` was made of. */
  get texts(): readonly string[] {
    return this.#texts;
  }

  /** Another number each time that the content changed. */
  get revision(): number {
    return this.#revision;
  }

  /** Takes the files as they are now, without waiting to see them change and stay. Does not reject. */
  reload(): Promise<void> {
    return this.#alone(async () => {
      const seen = await signature(this.#options).catch(messageOf);
      this.#looked = seen;
      // Whoever asks is told at once.
      this.#bad = seen;
      await this.#take(seen);
    });
  }

  /** Follows them no longer; idempotent. */
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

  /** Returns when to look again, in milliseconds from now. */
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
      // Changed while it was read: whether it has stayed is seen next time.
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
      // A pipe would be waited for.
      if (!state.isFile()) throw new Error(`${path} is not a regular file`);
      return { text: await files.readFile(path, "utf8"), permissions: state.mode & 0o7777 };
    }),
  );
}

function textsOf(found: readonly FileRead[]): readonly string[] {
  return found.map(({ text }) => text);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
