/** The engine in force, which may be replaced while it is asked. */

import type { CompiledEngine } from "./bundle-engine.ts";
import type { PolicyDecision, PolicyEngine, PolicyQuery } from "./decision.ts";

/**
 * Hands each question to the engine in force. A decision is synchronous and made by one engine from its first fact to
 * its last, so none is a mixture of two policy sets, and an engine that was replaced has nothing left to answer.
 */
export class PolicyHolder implements PolicyEngine {
  #engine: CompiledEngine;

  /** The engine becomes the holder's: it is released when it is replaced. */
  constructor(engine: CompiledEngine) {
    this.#engine = engine;
  }

  get revision(): string {
    return this.#engine.revision;
  }

  decide(query: PolicyQuery): PolicyDecision {
    return this.#engine.decide(query);
  }

  /** Puts the engine in force. */
  replace(engine: CompiledEngine): void {
    const replaced = this.#engine;
    this.#engine = engine;
    replaced.release();
  }

  /** Gives the engine's memory back. Later decisions are denials. */
  release(): void {
    this.#engine.release();
  }
}
