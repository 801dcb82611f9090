/** What passes between `referee.ts` and its thread. */
import type { CompiledEngine } from "../engine/bundle-engine.ts";
import type { PolicyDecision, PolicyQuery } from "../engine/decision.ts";

/** What the thread is started with: content of a bundle, and its revision. */
export type RefereeStart = Pick<CompiledEngine, "contentBytes" | "revision">;

export interface RefereeQuestion {
  readonly number: number;
  readonly query: PolicyQuery;
  /** JSON of the decision that was made. */
  readonly decision: string;
}

/** What the thread is asked, and what it answers: several at a time, for most of what one costs alone is waking it. */
export type RefereeQuestions = readonly RefereeQuestion[];
export type RefereeAnswers = readonly RefereeAnswer[];

export interface RefereeAnswer {
  readonly number: number;
  /** Cedar's decision where it is another. */
  readonly cedar?: PolicyDecision;
}
