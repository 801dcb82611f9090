/** Files that are polled and reloaded together; changes take effect within seconds. */
import { Polled } from "../base/polled.ts";
import type { Timers } from "../base/timers.ts";

/** The used part of `node:fs/promises`; follows links. Both reject with an error that has a `code`. */
interface WatchedFileSystem {
  stat(path: string): Promise<{ readonly mode: number; isFile(): boolean }>;
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

const pollMs = 2_000;
/** Files that changed are read again after this time, and applied if they have not changed since. */
const settleMs = 250;

/**
 * Holds the last valid content: missing or invalid files change nothing until they are valid again. Steps of a change
 * may be up to `settleMs` apart, and no problem is reported if the change is complete by the next poll. Best is one
 * step: renaming a file over the old one, or switching a link to a folder, as orchestrators do.
 */
export class WatchedFiles<Content> {
  readonly #options: WatchedFilesOptions<Content>;
  readonly #polled: Polled<readonly FileRead[]>;
  #current: Content;
  #texts: readonly string[];
  #revision = 0;

  private constructor(options: WatchedFilesOptions<Content>, content: Content, known: readonly FileRead[]) {
    this.#options = options;
    this.#current = content;
    this.#texts = textsOf(known);
    this.#polled = new Polled({
      ...options,
      ...{ known, pollMs, settleMs },
      read: () => read(options),
      apply: (found) => this.#apply(found),
      onFailure: ({ message }) => options.onProblem(message),
    });
    this.#polled.start();
  }

  /** Reads the files for the first time. Rejects if they cannot be read or are invalid. */
  static async open<Content>(options: WatchedFilesOptions<Content>): Promise<WatchedFiles<Content>> {
    const found = await read(options);
    return new WatchedFiles(options, await options.parse(found, undefined), found);
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
    return this.#polled.reload();
  }

  /** Stops polling. Idempotent. */
  close(): void {
    void this.#polled.stop();
  }

  async #apply(found: readonly FileRead[]): Promise<void> {
    const content = await this.#options.parse(found, this.#current);
    const texts = textsOf(found);
    if (texts.every((text, index) => text === this.#texts[index])) return;
    await this.#options.onChange?.(content, texts);
    this.#texts = texts;
    this.#current = content;
    this.#revision += 1;
  }
}

async function read<Content>({ files, paths }: WatchedFilesOptions<Content>): Promise<readonly FileRead[]> {
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
