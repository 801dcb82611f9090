/** Decides the questions of one call, for all methods that have them: with scopes, quotas and turns of admission. */
import type { HandlerContext } from "@connectrpc/connect";
import { requireScopes } from "../../auth/authenticator.ts";
import type { StopRule } from "../../domain/bulk.ts";
import type { Decided } from "../../domain/decision.ts";
import type { Evaluations, PathedQuestion } from "../../domain/evaluation.ts";
import type { EvaluationRequest } from "../../domain/requests.ts";
import { callerOf, callOf } from "../calls/call.ts";
import { pause } from "./bulk.ts";
import type { TakeItems } from "./bulk-streams.ts";
import { identityOf } from "./messages.ts";

export interface AskingOptions {
  readonly takeItems: TakeItems;
}

export interface Asking {
  /** Rejects as `Evaluations.prepare`. */
  prepare(questions: readonly PathedQuestion[], context: HandlerContext): Promise<readonly EvaluationRequest[]>;
  /**
   * Evaluates the questions if the caller has the scopes for all of them. `stopsAfter` may end the evaluation early.
   *
   * @throws ServiceError `missing_scope`, `rate_limited`, or as `Evaluations.evaluate`
   */
  decide(
    requests: readonly EvaluationRequest[],
    context: HandlerContext,
    stopsAfter?: StopRule,
  ): Promise<readonly Decided[]>;
}

export function createAsking(evaluations: Evaluations, { takeItems }: AskingOptions): Asking {
  return {
    prepare: (questions, context) => evaluations.prepare(callerOf(context), questions, () => pause(callOf(context))),
    async decide(requests, context, stopsAfter) {
      const identity = identityOf(context);
      // Check the scopes of all questions before the first is evaluated.
      const isDpop = /^dpop /i.test(context.requestHeader.get("authorization") ?? "");
      requireScopes(identity.caller, evaluations.scopesFor(identity.caller, requests), isDpop ? "DPoP" : "Bearer");
      const call = callOf(context);
      if (requests.length === 0) call.recordedItems = 0;
      // The call itself was counted as one of them.
      const others = requests.length - 1;
      const settle = others > 0 ? await takeItems(call, others, context.signal) : undefined;
      const answers = await evaluations.evaluate(identity, requests, (until) => pause(call, until), stopsAfter);
      settle?.(answers.length - 1, answers.length - 1);
      return answers;
    },
  };
}
