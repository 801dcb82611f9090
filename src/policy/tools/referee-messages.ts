/** What passes between `referee.ts` and its thread. */
import type { CompiledEngine } from "../engine/bundle-engine.ts";
import type { PolicyDecision, PolicyQuery } from "../engine/decision.ts";

/** What the thread is started with: content of a bundle, and its revision. */
export type RefereeStart = Pick<CompiledEngine, "contentBytes" | "revision">;

/** What the thread is asked, and what it answers. */
export interface RefereeQuestion {
  readonly number: number;
  readonly query: PolicyQuery;
  readonly decision: PolicyDecision;
}
export interface RefereeAnswer {
  readonly number: number;
  /** Cedar's decision where it is another. */
  readonly cedar?: PolicyDecision;
}
