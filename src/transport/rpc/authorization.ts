/** The AuthZEN service over its domain: messages to questions, and decisions to answers. */
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type {
  AuthorizationService,
  EvaluateManyRequest,
  EvaluateResponse,
  Evaluation,
} from "../../../gen/platform/authzen/v1/authorization_pb.ts";
import { invalidRequest } from "../../base/errors.ts";
import type { Decided } from "../../domain/decision.ts";
import {
  type Evaluations,
  type EvaluationsSemantic,
  evaluationsSemantics,
  stopRuleOf,
} from "../../domain/evaluation.ts";
import { type AskingOptions, createAsking } from "./asking.ts";
import { forMessage, obligationMessages, receiptMessage } from "./messages.ts";
import { type Asked, requireBytes, requiredQuestion } from "./questions.ts";
import { createSearches, type SearchOptions } from "./searches.ts";

export type AuthorizationOptions = AskingOptions & SearchOptions;

export function createAuthorizationService(
  evaluations: Evaluations,
  options: AuthorizationOptions,
): ServiceImpl<typeof AuthorizationService> {
  const asking = createAsking(evaluations, options);
  const evaluate = async (asked: readonly Asked[], context: HandlerContext, semantic?: EvaluationsSemantic) => {
    const questions = asked.map((one, position) =>
      requiredQuestion(one, asked.length === 1 ? "" : `evaluations[${position}].`),
    );
    const answers = await asking.decide(
      await asking.prepare(questions, context),
      context,
      semantic && stopRuleOf(semantic),
    );
    return answers.map((decided) => answerOf(decided, context));
  };
  const evaluateOne = async (asked: Asked, context: HandlerContext) =>
    (await evaluate([asked], context))[0] as EvaluateResponse;
  return {
    evaluate: evaluateOne,
    async evaluateMany(request, context) {
      const semantic = semanticOf(request);
      // Without `evaluations`, the request itself is the question (AuthZEN 1.0, Access Evaluations API).
      if (request.evaluations.length === 0) {
        const { decision, context: known } = await evaluateOne(request, context);
        return { decision, ...(known !== undefined && { context: known }) };
      }
      const asked = request.evaluations.map(withDefaults(request));
      requireBytes(asked, options.maxQuestionBytes);
      return { evaluations: await evaluate(asked, context, semantic) };
    },
    ...createSearches(evaluations, asking, options),
  };
}

function semanticOf({ options }: EvaluateManyRequest): EvaluationsSemantic {
  const asked = options?.evaluationsSemantic || "execute_all";
  const found = evaluationsSemantics.find((semantic) => semantic === asked);
  if (found !== undefined) return found;
  throw invalidRequest(
    "options.evaluations_semantic",
    "enum.defined_only",
    `must be one of ${evaluationsSemantics.join(", ")}`,
  );
}

/** A question inherits absent members from the request (AuthZEN 1.0, Default values). */
function withDefaults({ subject, action, resource, context }: EvaluateManyRequest): (one: Evaluation) => Asked {
  return (one) => ({
    subject: one.subject ?? subject,
    action: one.action ?? action,
    resource: one.resource ?? resource,
    context: one.context ?? context,
  });
}

function answerOf(decided: Decided, context: HandlerContext): EvaluateResponse {
  const { allow, decisionId, policyRevision, reasons, obligations, receipt } = decided;
  return {
    $typeName: "platform.authzen.v1.EvaluateResponse",
    decision: allow,
    context: {
      $typeName: "platform.authzen.v1.DecisionContext",
      decisionId,
      policyRevision,
      reasons: forMessage(reasons),
      obligations: obligationMessages(obligations),
      receipt: receiptMessage(context, receipt),
    },
  };
}
