/** Takes the place of `node:worker_threads`: the store's threads run in this one, an event for each message. */
import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";
import { DeathError, machine, type Process } from "./machine.ts";
import { sourceOf } from "./mutate.ts";

/** What a thread's module is started with, in the place of its imports. */
type Imports = Readonly<Record<string, Readonly<Record<string, unknown>>>>;
type Start = (imports: Imports) => Promise<void>;

const starts = new Map<string, Promise<{ readonly start: Start; readonly imports: Imports }>>();

/** The module as a function: each call is a thread with state of its own, and goes when nothing refers to it. */
async function load(url: URL): Promise<{ readonly start: Start; readonly imports: Imports }> {
  const text = stripTypeScriptTypes(sourceOf(url.href) ?? readFileSync(fileURLToPath(url), "utf8"));
  const specifiers: string[] = [];
  const body = text
    .replaceAll(/^import \{([^}]*)\} from "([^"]+)";$/gm, (_, names: string, specifier: string) => {
      specifiers.push(specifier);
      return `const {${names.replaceAll(" as ", ": ")}} = imports["${specifier}"];`;
    })
    .replaceAll("await import(setup.module)", "{ prepare() {} }");
  const modules = await Promise.all(
    specifiers.map(async (specifier) => {
      if (specifier === "node:worker_threads") return [specifier, {}] as const;
      return [specifier, await import(specifier.startsWith(".") ? new URL(specifier, url).href : specifier)] as const;
    }),
  );
  const AsyncFunction = load.constructor as new (parameter: string, body: string) => Start;
  return { start: new AsyncFunction("imports", body), imports: Object.fromEntries(modules) };
}

/** Loads a thread's module, so that starting one takes no time of the machine's. */
export async function preload(url: URL): Promise<void> {
  starts.set(url.href, load(url));
  await starts.get(url.href);
}

type Handler = (given?: unknown) => void;

export class Worker {
  readonly #handlers = new Map<string, Handler[]>();
  readonly #inbox: unknown[] = [];
  readonly #process: Process;
  readonly #owner: Process;
  #serve: Handler | undefined;
  #hasExited = false;
  #lastInMs = 0;
  #lastOutMs = 0;

  constructor(url: URL, { workerData }: { readonly workerData: { readonly setup: { readonly data: unknown } } }) {
    const owner = machine().processes.get(String(workerData.setup.data));
    // A process for the machine: its connections are closed when the thread ends, or its owner does.
    this.#process = machine().newProcess(`${owner?.name}/thread`);
    this.#owner = owner ?? this.#process;
    // What a dead process still does has no effect.
    if (owner === undefined) {
      this.#process.kill();
      return;
    }
    this.#process.skewMs = owner.skewMs;
    this.#process.hasFaults = owner.hasFaults;
    owner.onDeath(() => this.#end());
    this.#process.onDeath(() => this.#exit());
    machine().after(machine().latencyMs(), "thread starts", () => void this.#start(url, workerData));
  }

  on(event: string, handler: Handler): this {
    this.#handlers.set(event, [...(this.#handlers.get(event) ?? []), handler]);
    return this;
  }

  once(event: string, handler: Handler): this {
    return this.on(event, handler);
  }

  postMessage(message: unknown): void {
    if (!this.#process.isAlive) return;
    this.#inbox.push(message);
    this.#lastInMs = Math.max(this.#lastInMs, machine().nowMs + machine().latencyMs(0.5));
    machine().after(this.#lastInMs - machine().nowMs, "thread serves", () => this.#next());
  }

  async terminate(): Promise<number> {
    this.#end();
    return 0;
  }

  async #start(url: URL, workerData: unknown): Promise<void> {
    if (!this.#process.isAlive) return;
    const { start, imports } = await (starts.get(url.href) as Promise<{ start: Start; imports: Imports }>);
    const parentPort = {
      on: (_: string, handler: Handler) => {
        this.#serve = handler;
      },
      postMessage: (message: unknown) => this.#post(message),
      close: () => this.#end(),
    };
    const receiveMessageOnPort = () => {
      const [message] = this.#inbox.splice(0, 1);
      return message === undefined ? undefined : { message };
    };
    const threads = { parentPort, workerData, receiveMessageOnPort };
    const started = this.#as(() => start({ ...imports, "node:worker_threads": threads }));
    // Its first part, up to where it would wait for a module, is all there is.
    await started.catch((error: unknown) => {
      this.#emit("error", error);
      this.#end();
    });
  }

  #next(): void {
    if (!this.#process.isAlive || this.#serve === undefined) return;
    const [message] = this.#inbox.splice(0, 1);
    if (message === undefined) return;
    try {
      this.#as(() => this.#serve?.(message));
    } catch (error) {
      if (!(error instanceof DeathError)) throw error;
    }
  }

  #as<Result>(work: () => Result): Result {
    return machine().as(this.#process, work);
  }

  /** Messages arrive in their order. */
  #post(message: unknown): void {
    if (!this.#process.isAlive) return;
    this.#lastOutMs = Math.max(this.#lastOutMs, machine().nowMs + machine().latencyMs(0.5));
    machine().after(this.#lastOutMs - machine().nowMs, "thread answers", () => {
      if (this.#owner.isAlive && !this.#hasExited) this.#emit("message", message);
    });
  }

  #end(): void {
    this.#process.kill();
  }

  #exit(): void {
    machine().after(this.#lastOutMs - machine().nowMs, "thread ended", () => {
      this.#hasExited = true;
      if (this.#owner.isAlive) this.#emit("exit");
    });
  }

  #emit(event: string, given?: unknown): void {
    for (const handler of this.#handlers.get(event) ?? []) handler(given);
  }
}
