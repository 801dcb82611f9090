/** One log at all of its witnesses: whether a quorum has cosigned it, and at which state. */
import { storeUnavailable } from "../../base/errors.ts";
import type { Timers } from "../../base/timers.ts";
import type { Span } from "../../base/trace.ts";
import type { LedgerStore, LogState } from "../ports/store.ts";
import { logNameOf } from "../tlog/log-name.ts";
import type { TreeHead } from "../tlog/tree-verify.ts";
import type { WitnessLog } from "./witness-log.ts";

interface WitnessQuorumContext extends Pick<LedgerStore, "head"> {
  readonly quorum: number;
  readonly awaited: boolean;
  readonly timers: Timers;
}

export class WitnessQuorum {
  readonly atWitnesses: readonly WitnessLog[];
  readonly #state: LogState;
  readonly #context: WitnessQuorumContext;
  #admitted = false;
  /** The log went back while this process watched. */
  #setBack: { readonly message: string; readonly size: number } | undefined;

  constructor(state: LogState, atWitnesses: readonly WitnessLog[], context: WitnessQuorumContext) {
    this.#state = state;
    this.atWitnesses = atWitnesses;
    this.#context = context;
  }

  /** Why nothing may be appended: one witness that has seen another history is enough. */
  get problem(): string | undefined {
    if (this.#setBack !== undefined) return this.#setBack.message;
    const statuses = this.atWitnesses.map(({ status }) => status);
    return statuses.flatMap((status) => (status.kind === "unsound" ? [status.message] : []))[0];
  }

  /** Number of witnesses whose newest exchange failed. */
  get failing(): number {
    return this.atWitnesses.filter(({ status }) => status.kind === "failed").length;
  }

  /** Whether appending may begin: every witness has been asked or, if answers wait, a quorum has cosigned. */
  get isAdmitted(): boolean {
    const { awaited, quorum } = this.#context;
    const statuses = this.atWitnesses.map(({ status }) => status.kind);
    this.#admitted ||= awaited
      ? statuses.filter((kind) => kind === "cosigned").length >= quorum
      : !statuses.includes("unasked");
    return this.#admitted;
  }

  /** Skips that check for a log that is new, or that this process did not know when it started. */
  admit(): void {
    this.#admitted = true;
  }

  /** The newest state that a quorum has cosigned. */
  get anchored(): LogState | undefined {
    const trees = this.atWitnesses.flatMap(({ newest }) => (newest === undefined ? [] : [newest]));
    const newest = trees.sort((a, b) => b.size - a.size)[this.#context.quorum - 1];
    if (newest === undefined) return undefined;
    const { tenantId, origin } = this.#state;
    return { tenantId, origin, size: newest.size, root: newest.root };
  }

  /** An append that began after `since` was anchored must give a larger tree. */
  requireProgress(state: LogState, since: LogState): void {
    if (state.size > since.size && state.origin === since.origin) return;
    this.#setBack = {
      message: `log ${since.origin} had ${since.size} leaves at its witnesses, and an append gave ${state.origin} ${state.size}: the store is an older copy`,
      size: since.size,
    };
  }

  note(state: LogState): void {
    for (const atWitness of this.atWitnesses) atWitness.note(state);
  }

  /** Asks every witness that has not cosigned the newest state; resolves when all have answered or failed. */
  async ask(): Promise<void> {
    await Promise.all(this.atWitnesses.map((each) => (each.hasCosigned(each.log.size) ? undefined : each.submit())));
  }

  /** Submits the state to witnesses that did not fail last time; the others are asked later. */
  follow(span?: Span): void {
    for (const each of this.atWitnesses) if (each.status.kind !== "failed") void each.submit(span);
  }

  /** As `follow`; resolves when they have answered or failed. */
  async catchUp(): Promise<void> {
    const following = this.atWitnesses.filter(({ status }) => status.kind !== "failed");
    await Promise.all(following.map((each) => each.cosign(each.log)));
  }

  /** Asks witnesses that failed or reported a fault again. Resolves with whether all is well. */
  async retry(): Promise<boolean> {
    if (this.#setBack !== undefined) {
      const head = await this.#context.head(logNameOf(this.#state.origin)).catch(() => undefined);
      if (head !== undefined && head.size >= this.#setBack.size) this.#setBack = undefined;
    }
    await this.ask();
    return this.failing === 0 && this.problem === undefined;
  }

  /**
   * Resolves when the quorum has cosigned this tree, or trees that extend it. Rejects with `store_unavailable` if that
   * is impossible, or takes longer than `waitMs`.
   */
  quorum(tree: TreeHead, waitMs: number, span?: Span): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let missing = this.#context.quorum;
    let toFail = this.atWitnesses.length - missing + 1;
    const refuse = () => reject(storeUnavailable("Not enough witnesses have cosigned the log."));
    const cancel = this.#context.timers.after(waitMs, refuse);
    for (const each of this.atWitnesses) {
      void each.cosign(tree, span).then((done) => {
        if (done && --missing === 0) resolve();
        if (!done && --toFail === 0) refuse();
      });
    }
    return promise.finally(cancel);
  }
}
