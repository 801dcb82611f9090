/**
 * Follows a policy directory: what changes in it is loaded whole, judged, kept, and put in force; or refused, and then
 * what was in force stays.
 *
 * The directory is read again and again and its content compared. Notifications of the file system do not do: they
 * do not come from network volumes, are lost when a folder is replaced by a link (which is how orchestrators mount
 * files), and say that something changed, never that it is complete. So a changed directory must look the same twice in
 * a row before it counts: a copy under way is waited for. What was read is what is compiled; nothing is read a second
 * time.
 */
import { isDeepStrictEqual } from "node:util";
import { inTurns } from "../../base/steps.ts";
import type { Timers } from "../../base/timers.ts";
import type { ComparedBundle } from "../check/check.ts";
import type { CompiledEngine } from "../engine/bundle-engine.ts";
import { compileInTurns, type EngineOptions } from "../engine/engine.ts";
import { identify, type PolicyBundle } from "./bundle.ts";
import type { PolicyReading } from "./directory.ts";
import { type PolicyProblem, sortProblems } from "./problem.ts";

/** What became of a directory that changed. */
export type ReloadEvent =
  /** It is in force; perhaps again, after what was refused in between, and then sets that Cedar evaluates are as before. */
  | { readonly type: "loaded"; readonly revision: string; readonly disagreements?: ReadonlyMap<string, string> }
  /** It is bad; what was in force stays. */
  | { readonly type: "refused"; readonly problems: readonly PolicyProblem[] }
  /** It could not be judged or kept; it is tried again. Told once for each message. */
  | { readonly type: "failed"; readonly error: Error };

/** What became of the newest content of the directory; see `ReloadEvent`. */
export type PolicyStatus =
  | { readonly newest: "in_force" | "failed"; readonly problems?: never }
  | { readonly newest: "refused"; readonly problems: readonly PolicyProblem[] };

export interface ReloaderOptions {
  /** Reads the directory; `before` is what was read last, as for `readPolicyDirectory`. Does not reject. */
  read(before: PolicyReading | undefined): Promise<PolicyReading>;
  /** Judges a bundle. Rejects where that is not possible now. */
  check(bundle: PolicyBundle): Promise<ComparedBundle>;
  /** Keeps the content of a revision, UTF-8, before the revision decides anything. Rejects where it cannot be kept now. */
  keep(revision: string, content: Uint8Array): Promise<void>;
  /** The revision in force; undefined where there is none. */
  current(): string | undefined;
  /** Puts the engine in force. It is the receiver's to release. Must not throw. */
  install(engine: CompiledEngine): void;
  /** What was read last, before now. */
  readonly known?: PolicyReading;
  /** Time between two looks, in milliseconds. */
  readonly pollMs: number;
  readonly engine?: EngineOptions;
  readonly timers: Timers;
  readonly onEvent: (event: ReloadEvent) => void;
}

export class PolicyReloader {
  readonly #options: ReloaderOptions;
  /** What was seen last, and what was last put in force or refused. */
  #seen: PolicyReading | undefined;
  #settled: PolicyReading | undefined;
  #refused: readonly PolicyProblem[] = [];
  #failure: string | undefined;
  #turn: Promise<void> = Promise.resolve();
  #callOff: (() => void) | undefined;
  #stopped = false;

  constructor(options: ReloaderOptions) {
    this.#options = options;
    this.#seen = options.known;
    this.#settled = options.known;
  }

  /** Whether the newest content of the directory is in force, as far as it has been looked at. */
  get status(): PolicyStatus {
    if (this.#failure !== undefined) return { newest: "failed" };
    return this.#refused.length > 0 ? { newest: "refused", problems: this.#refused } : { newest: "in_force" };
  }

  /** Begins to look, at once and then again and again. */
  start(): void {
    if (this.#stopped) return;
    void this.#poll(false).then(() => {
      if (!this.#stopped) this.#callOff = this.#options.timers.after(this.#options.pollMs, () => this.start());
    });
  }

  /** Takes the directory as it is now, without waiting for it to look the same twice. Does not reject. */
  reload(): Promise<void> {
    return this.#poll(true);
  }

  /** Stops looking; resolves when nothing is under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#callOff?.();
    await this.#turn;
  }

  /** One look at a time. */
  #poll(atOnce: boolean): Promise<void> {
    this.#turn = this.#turn.then(() => this.#attempt(atOnce));
    return this.#turn;
  }

  async #attempt(atOnce: boolean): Promise<void> {
    try {
      const found = await this.#options.read(this.#seen);
      const isNew = !isDeepStrictEqual(found, this.#seen);
      // Of readings that are alike only one is kept: they are as large as all policies.
      const reading = isNew ? found : (this.#seen as PolicyReading);
      this.#seen = reading;
      if ((isNew && !atOnce) || this.#stopped) return;
      if (reading !== this.#settled && !isDeepStrictEqual(reading, this.#settled)) await this.#settle(reading);
      this.#settled = reading;
      this.#failure = undefined;
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      if (error.message === this.#failure) return;
      this.#failure = error.message;
      this.#options.onEvent({ type: "failed", error });
    }
  }

  async #settle({ bundle, problems }: PolicyReading): Promise<void> {
    if (bundle === undefined) return this.#refuse(problems);
    const { check, keep, current, install, onEvent } = this.#options;
    const { content, revision } = await inTurns(identify(bundle));
    if (problems.length === 0 && revision === current()) {
      this.#refused = [];
      return onEvent({ type: "loaded", revision });
    }
    const checked = await check(bundle);
    const all = sortProblems([...problems, ...checked.problems]);
    if (all.length > 0) return this.#refuse(all);
    await keep(revision, content);
    const { engine } = await compileInTurns(bundle, checked, this.#options.engine);
    if (engine === undefined) throw new TypeError("a bundle without problems compiles");
    install(engine);
    this.#refused = [];
    onEvent({ type: "loaded", revision, disagreements: checked.disagreements });
  }

  #refuse(problems: readonly PolicyProblem[]): void {
    this.#refused = problems;
    this.#options.onEvent({ type: "refused", problems });
  }
}
