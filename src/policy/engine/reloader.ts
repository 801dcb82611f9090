/**
 * Watches a policy directory: a change is loaded whole, checked, stored and put in force, or refused, and then the
 * policies in force stay.
 *
 * The directory is polled and its content compared. File system notifications are not enough: network volumes send
 * none, they are lost when a folder is replaced by a link (which is how orchestrators mount files), and they never tell
 * whether a change is complete. So a changed directory must be read the same twice in a row, because a copy may be in
 * progress. What was read is what is compiled; nothing is read a second time.
 */
import { isDeepStrictEqual } from "node:util";
import type { Timers } from "../../base/timers.ts";
import type { CheckedBundle } from "../check/check.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import type { PolicyReading } from "../load/directory.ts";
import { type PolicyProblem, sortProblems } from "../model/problem.ts";
import { compileInTurns, type EngineOptions } from "./engine.ts";
import type { PolicyHolder } from "./holder.ts";

/** Result of a change of the directory. */
export type ReloadEvent =
  /** It is in force; perhaps again after a refused change, and then the sets that Cedar evaluates are unchanged. */
  | { readonly type: "loaded"; readonly revision: string; readonly disagreements?: ReadonlyMap<string, string> }
  /** It is invalid; the policies in force stay. */
  | { readonly type: "refused"; readonly problems: readonly PolicyProblem[] }
  /** It could not be checked or stored, and will be retried. Reported once for each message. */
  | { readonly type: "failed"; readonly error: Error };

/** Result for the newest content of the directory; see `ReloadEvent`. */
export type PolicyStatus =
  | { readonly newest: "in_force" | "failed"; readonly problems?: never }
  | { readonly newest: "refused"; readonly problems: readonly PolicyProblem[] };

interface ReloaderOptions {
  /** Reads the directory. Does not reject. */
  read(): Promise<PolicyReading>;
  /** Checks a bundle. Rejects if that is not possible now. */
  check(bundle: PolicyBundle): Promise<CheckedBundle>;
  /** The reading of the engine in force. */
  readonly known: PolicyReading;
  /** Polling interval, in milliseconds. */
  readonly pollMs: number;
  readonly engine?: EngineOptions;
  readonly timers: Timers;
  readonly onEvent: (event: ReloadEvent) => void;
}

interface RevisionStore {
  /** Stores the content of a revision, in UTF-8. Rejects if it cannot be stored now. */
  keepPolicyRevision(revision: string, content: Uint8Array): Promise<void>;
}

export class PolicyReloader {
  /** Decides each question by the set in force at that moment. */
  readonly engine: PolicyHolder;
  readonly #options: ReloaderOptions;
  #store: RevisionStore | undefined;
  /** The last reading, and the last one that was put in force or refused. */
  #seen: PolicyReading;
  #settled: PolicyReading;
  #refused: readonly PolicyProblem[] = [];
  #failure: string | undefined;
  #turn: Promise<void> = Promise.resolve();
  #callOff: (() => void) | undefined;
  #stopped = false;

  constructor(engine: PolicyHolder, options: ReloaderOptions) {
    this.engine = engine;
    this.#options = options;
    this.#seen = options.known;
    this.#settled = options.known;
  }

  /** Whether the newest content of the directory is in force, as of the last poll. */
  get status(): PolicyStatus {
    if (this.#failure !== undefined) return { newest: "failed" };
    return this.#refused.length > 0 ? { newest: "refused", problems: this.#refused } : { newest: "in_force" };
  }

  /**
   * Stores the revision in force, and from then on each one before it decides. Call it before the first decision and
   * before `start`.
   */
  async keepIn(store: RevisionStore): Promise<void> {
    await store.keepPolicyRevision(this.engine.revision, this.engine.engine.content);
    this.#store = store;
  }

  /** Starts polling, the first time at once. */
  start(): void {
    if (this.#stopped) return;
    void this.#poll(false).then(() => {
      if (!this.#stopped) this.#callOff = this.#options.timers.after(this.#options.pollMs, () => this.start());
    });
  }

  /** Loads the directory as it is now, without waiting for a second equal reading. Does not reject. */
  reload(): Promise<void> {
    return this.#poll(true);
  }

  /** Stops polling; decisions are still made. Resolves when no poll is in progress. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#callOff?.();
    await this.#turn;
  }

  /** One poll at a time. */
  #poll(atOnce: boolean): Promise<void> {
    this.#turn = this.#turn.then(() => this.#attempt(atOnce));
    return this.#turn;
  }

  async #attempt(atOnce: boolean): Promise<void> {
    try {
      const found = await this.#options.read();
      const isNew = !isDeepStrictEqual(found, this.#seen);
      // Of equal readings only one is kept: each is as large as all policies.
      const reading = isNew ? found : this.#seen;
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
    const { check, onEvent } = this.#options;
    const checked = await check(bundle);
    const all = sortProblems([...problems, ...checked.problems]);
    if (all.length > 0) return this.#refuse(all);
    const { content, revision } = checked.identity;
    if (revision === this.engine.revision) {
      this.#refused = [];
      return onEvent({ type: "loaded", revision });
    }
    if (this.#store === undefined) throw new Error("there is no store to keep the revision in yet");
    await this.#store.keepPolicyRevision(revision, content);
    const { engine } = await compileInTurns(bundle, checked, this.#options.engine);
    if (engine === undefined) throw new TypeError("a bundle without problems compiles");
    this.engine.replace(engine);
    this.#refused = [];
    onEvent({ type: "loaded", revision, disagreements: checked.disagreements });
  }

  #refuse(problems: readonly PolicyProblem[]): void {
    this.#refused = problems;
    this.#options.onEvent({ type: "refused", problems });
  }
}
