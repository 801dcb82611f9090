/** The engine in force, replaceable at run time. */
import { isDeepStrictEqual } from "node:util";
import { type AttributeDeclarations, type DeclaredAttributes, noDeclaredAttributes } from "../../base/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import type { PolicyAction, PolicyDecision, PolicyEngine, PolicyQuery } from "../model/decision.ts";
import type { CompiledEngine } from "./engine.ts";

/** Delegates to the engine in force. Decisions are synchronous, so none mixes two policy sets. */
export class PolicyHolder implements PolicyEngine {
  /** Caller attributes that the engine in force declares. Their revision changes only with them. */
  readonly callerAttributes: DeclaredAttributes;
  readonly #declared: { current: AttributeDeclarations; revision: number };
  #engine: CompiledEngine;

  /** Takes ownership: the engine is released when it is replaced. */
  constructor(engine: CompiledEngine) {
    this.#engine = engine;
    this.#declared = { current: engine.callerAttributes, revision: 0 };
    this.callerAttributes = this.#declared;
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

  actionNamed(name: string): PolicyAction | undefined {
    return this.#engine.actionNamed(name);
  }

  get actionNames(): readonly string[] {
    return this.#engine.actionNames;
  }

  replace(engine: CompiledEngine): void {
    const replaced = this.#engine;
    this.#engine = engine;
    if (!isDeepStrictEqual(engine.callerAttributes, this.#declared.current)) {
      this.#declared.current = engine.callerAttributes;
      this.#declared.revision++;
    }
    replaced.release();
  }

  /** Releases the engine's memory. Later decisions are denials. */
  release(): void {
    this.#engine.release();
  }
}
