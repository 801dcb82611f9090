/**
 * The policies in force: those of a watched directory. A change is loaded whole, checked, stored and put in force, or
 * refused, and then the policies in force stay. What was read is what is compiled; nothing is read a second time.
 */
import { isDeepStrictEqual } from "node:util";
import { type AttributeDeclarations, type DeclaredAttributes, noDeclaredAttributes } from "../../base/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import { Polled } from "../../base/polled.ts";
import type { Timers } from "../../base/timers.ts";
import type { CheckedBundle } from "../check/check.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import type { PolicyReading } from "../load/directory.ts";
import type { PolicyDecision, PolicyEngine, PolicyQuery } from "../model/decision.ts";
import { type PolicyProblem, sortProblems } from "../model/problem.ts";
import { type CompiledEngine, compileInTurns, type EngineOptions } from "./engine.ts";

/** Result of a change of the directory. */
export type ReloadEvent =
  /**
   * It is in force; perhaps again after a change that was refused or failed, and then the sets that Cedar evaluates are
   * unchanged.
   */
  | { readonly type: "loaded"; readonly revision: string; readonly disagreements?: ReadonlyMap<string, string> }
  /** It is invalid; the policies in force stay. */
  | { readonly type: "refused"; readonly problems: readonly PolicyProblem[] }
  /** It could not be checked or stored, and will be retried. Reported once for each message, if that lasts. */
  | { readonly type: "failed"; readonly error: Error };

/** Result for the newest content of the directory; see `ReloadEvent`. */
export type PolicyStatus =
  | { readonly newest: "in_force" | "failed"; readonly problems?: never }
  | { readonly newest: "refused"; readonly problems: readonly PolicyProblem[] };

interface PolicyInForceOptions {
  /** Reads the directory. Does not reject. */
  read(): Promise<PolicyReading>;
  /** Checks a bundle. Rejects if that is not possible now. */
  check(bundle: PolicyBundle): Promise<CheckedBundle>;
  /** The reading of the first engine. */
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

/** Decides each question by the set in force at that moment. Decisions are synchronous, so none mixes two sets. */
export class PolicyInForce implements PolicyEngine {
  /** Caller attributes that the engine in force declares. Their revision changes only with them. */
  readonly callerAttributes: DeclaredAttributes;
  /** Decisions are made whether it is polled or not. */
  readonly directory: Polled<PolicyReading>;
  readonly #declared: { current: AttributeDeclarations; revision: number };
  readonly #options: PolicyInForceOptions;
  #engine: CompiledEngine;
  #store: RevisionStore | undefined;
  #refused: readonly PolicyProblem[] = [];

  /** Takes ownership: the engine is released when it is replaced. */
  constructor(engine: CompiledEngine, options: PolicyInForceOptions) {
    this.#engine = engine;
    this.#declared = { current: engine.callerAttributes, revision: 0 };
    this.callerAttributes = this.#declared;
    let last: ReloadEvent["type"] = "loaded";
    const onEvent = (event: ReloadEvent) => {
      last = event.type;
      options.onEvent(event);
    };
    this.#options = { ...options, onEvent };
    this.directory = new Polled({
      ...options,
      settleMs: options.pollMs,
      apply: (reading) => this.#apply(reading),
      onFailure: (error) => onEvent({ type: "failed", error }),
      onRecovered: () => {
        // A change that failed was taken back: the directory is what was applied before, which is not applied again.
        if (last === "failed" && this.#refused.length === 0) onEvent({ type: "loaded", revision: this.revision });
      },
    });
  }

  get revision(): string {
    return this.#engine.revision;
  }

  /** The engine in force, to be read at once: it may be replaced. */
  get engine(): Omit<CompiledEngine, "release"> {
    return this.#engine;
  }

  /**
   * @throws ServiceError `policy_unavailable` if the declared attributes changed after those of the caller were read:
   *   the same name may now be of another claim
   */
  decide(query: PolicyQuery): PolicyDecision {
    const { declaredAttributes = noDeclaredAttributes.current } = query.caller;
    if (!isDeepStrictEqual(declaredAttributes, this.#declared.current)) {
      const message = "The declared attributes of callers changed during the call: retry.";
      throw new ServiceError("policy_unavailable", message, { retryAfterSeconds: 1 });
    }
    return this.#engine.decide(query);
  }

  readsRegistered(query: Pick<PolicyQuery, "caller" | "action">): boolean {
    return this.#engine.readsRegistered(query);
  }

  get actions(): PolicyEngine["actions"] {
    return this.#engine.actions;
  }

  /** Whether the newest content of the directory is in force, as of the last poll. */
  get status(): PolicyStatus {
    if (this.directory.isFailing) return { newest: "failed" };
    return this.#refused.length > 0 ? { newest: "refused", problems: this.#refused } : { newest: "in_force" };
  }

  /**
   * Stores the revision in force, and from then on each one before it decides. Call it before the first decision and
   * before polling starts.
   */
  async keepIn(store: RevisionStore): Promise<void> {
    await store.keepPolicyRevision(this.#engine.revision, this.#engine.content);
    this.#store = store;
  }

  async #apply({ bundle, problems }: PolicyReading): Promise<void> {
    if (bundle === undefined) return this.#refuse(problems);
    const { check, onEvent } = this.#options;
    const checked = await check(bundle);
    const all = sortProblems([...problems, ...checked.problems]);
    if (all.length > 0) return this.#refuse(all);
    const { content, revision } = checked.identity;
    if (revision === this.revision) {
      this.#refused = [];
      return onEvent({ type: "loaded", revision });
    }
    if (this.#store === undefined) throw new Error("there is no store to keep the revision in yet");
    await this.#store.keepPolicyRevision(revision, content);
    this.#replace(await compileInTurns(bundle, checked, this.#options.engine));
    this.#refused = [];
    onEvent({ type: "loaded", revision, disagreements: checked.disagreements });
  }

  #replace(engine: CompiledEngine): void {
    const replaced = this.#engine;
    this.#engine = engine;
    if (!isDeepStrictEqual(engine.callerAttributes, this.#declared.current)) {
      this.#declared.current = engine.callerAttributes;
      this.#declared.revision++;
    }
    replaced.release();
  }

  #refuse(problems: readonly PolicyProblem[]): void {
    this.#refused = problems;
    this.#options.onEvent({ type: "refused", problems });
  }
}
