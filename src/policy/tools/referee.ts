/**
 * Asks Cedar again, in a thread of its own, what was decided by compiled policies: a share of the decisions, and each
 * that policies decide together for the first time under a revision. It delays no answer. A disagreement means that
 * policies are not evaluated as Cedar defines.
 */
import { Worker } from "node:worker_threads";
import type { TenantId } from "../../base/ids.ts";
import { threadEnvironment } from "../../base/thread-environment.ts";
import type { Timers } from "../../base/timers.ts";
import type { CompiledEngine } from "../engine/bundle-engine.ts";
import type { PolicyDecision, PolicyQuery } from "../engine/decision.ts";
import type {
  RefereeAnswer,
  RefereeAnswers,
  RefereeQuestion,
  RefereeQuestions,
  RefereeStart,
} from "./referee-messages.ts";

/** A decision that Cedar would have made differently. */
export interface RefereeDisagreement {
  readonly revision: string;
  readonly tenantId: TenantId;
  readonly decisionId: string;
  readonly decided: PolicyDecision;
  readonly cedar: PolicyDecision;
}

export interface RefereeOptions {
  /** Share of decisions that Cedar is asked about, 0 to 1. */
  readonly share: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly timers: Timers;
  readonly onAgreement: () => void;
  readonly onDisagreement: (disagreement: RefereeDisagreement) => void;
  /** A decision that Cedar was to be asked about was left out. */
  readonly onDropped: () => void;
  /** The thread cannot ask Cedar. It is started again later. */
  readonly onFailure: (error: Error) => void;
}

/** Questions are up to about 100 kB each, so that few may wait. */
const maxWaiting = 64;
/** Sets of deciding policies that are remembered. */
const maxSeen = 10_000;
/** The thread starts later than the first question, for what starts or changes has something better to do then. */
const startAfterMs = 1_000;
/** Questions that are asked together, or fewer after this time: the thread's memory is cold each time that it wakes. */
const maxTogether = 16;
const askAfterMs = 500;
/** A thread without questions ends, and its memory with it. */
const idleMs = 10_000;
const pauseAfterFailureMs = 60_000;

/** What is asked of an engine whose decisions are refereed. */
type RefereedEngine = Pick<CompiledEngine, "contentBytes" | "revision" | "setOf">;

export class PolicyReferee {
  readonly #options: RefereeOptions;
  #engine: RefereedEngine | undefined;
  #thread: Worker | undefined;
  #callOff: (() => void) | undefined;
  #isPaused = false;
  /** Until there are enough of them, or the thread is started. */
  readonly #questions: RefereeQuestion[] = [];
  readonly #waiting = new Map<number, Omit<RefereeDisagreement, "cedar">>();
  readonly #seen = new Set<string>();
  #asked = 0;

  constructor(options: RefereeOptions) {
    this.#options = options;
  }

  /** Takes the engine whose decisions follow. It stays the caller's. */
  follow(engine: RefereedEngine): void {
    this.#stop();
    this.#seen.clear();
    this.#engine = engine;
  }

  /** Takes note of a decision that was made and recorded. Returns at once and does not throw. */
  observe(query: PolicyQuery, decision: PolicyDecision, decisionId: string): void {
    const engine = this.#engine;
    if (engine === undefined || decision.policyRevision !== engine.revision) return;
    const { share, random, timers, onDropped } = this.#options;
    const { tenantId } = query.caller;
    const deciding = `${engine.setOf("tenant", tenantId)} ${query.action} ${decision.allow} ${decision.reasons.join()}`;
    const isNew = this.#seen.size < maxSeen && !this.#seen.has(deciding);
    if (!isNew && random() >= share) return;
    if (this.#isPaused || this.#waiting.size >= maxWaiting) {
      onDropped();
      return;
    }
    if (isNew) this.#seen.add(deciding);
    const number = this.#asked++;
    this.#waiting.set(number, { revision: engine.revision, tenantId, decisionId, decided: decision });
    this.#questions.push({ number, query, decision: JSON.stringify(decision) });
    if (this.#thread === undefined) this.#callOff ??= timers.after(startAfterMs, () => this.#begin(engine));
    else if (this.#questions.length >= maxTogether) this.#ask();
    else if (this.#questions.length === 1) {
      this.#callOff?.();
      this.#callOff = timers.after(askAfterMs, () => this.#ask());
    }
  }

  /** Ends the thread, and forgets what waits. */
  release(): void {
    this.#engine = undefined;
    this.#stop();
  }

  #begin(engine: RefereedEngine): void {
    this.#callOff = undefined;
    this.#thread = this.#start(engine);
    this.#ask();
  }

  #ask(): void {
    this.#callOff?.();
    this.#callOff = undefined;
    this.#thread?.postMessage(this.#questions.splice(0) satisfies RefereeQuestions);
  }

  #start({ contentBytes, revision }: RefereedEngine): Worker {
    const thread = new Worker(new URL("./referee-worker.ts", import.meta.url), {
      workerData: { contentBytes, revision } satisfies RefereeStart,
      env: threadEnvironment(),
    });
    thread.unref();
    thread.on("message", (answers: RefereeAnswers) => {
      for (const answer of answers) if (this.#thread === thread) this.#take(answer);
    });
    thread.on("error", (error) => {
      if (this.#thread === thread) this.#fail(error instanceof Error ? error : new Error(String(error)));
    });
    thread.on("exit", (code) => {
      if (this.#thread === thread) this.#fail(new Error(`the thread that asks Cedar ended with ${code}`));
    });
    return thread;
  }

  #take({ number, cedar }: RefereeAnswer): void {
    const { onAgreement, onDisagreement, timers } = this.#options;
    const asked = this.#waiting.get(number);
    this.#waiting.delete(number);
    if (this.#waiting.size === 0) this.#callOff = timers.after(idleMs, () => this.#stop());
    if (asked === undefined) return;
    if (cedar === undefined) onAgreement();
    else onDisagreement({ ...asked, cedar });
  }

  #fail(error: Error): void {
    this.#stop();
    this.#isPaused = true;
    this.#options.timers.after(pauseAfterFailureMs, () => {
      this.#isPaused = false;
    });
    this.#options.onFailure(error);
  }

  #stop(): void {
    const thread = this.#thread;
    this.#thread = undefined;
    this.#callOff?.();
    this.#callOff = undefined;
    this.#waiting.clear();
    this.#questions.length = 0;
    void thread?.terminate();
  }
}
