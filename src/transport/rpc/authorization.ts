/** The service of enforcement points over its domain: AuthZEN's messages to questions, and decisions to its answers. */
import type { JsonObject as StructObject } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type {
  Action,
  AuthorizationService,
  EvaluateManyRequest,
  EvaluateResponse,
  Evaluation,
  Resource,
  Subject,
} from "../../../gen/platform/authzen/v1/authorization_pb.ts";
import { requireScopes } from "../../auth/authorization.ts";
import { invalidRequest, invalidRequests, type Violation } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Decided } from "../../domain/decision.ts";
import {
  type Evaluations,
  type EvaluationsSemantic,
  evaluationsSemantics,
  type PathedQuestion,
} from "../../domain/evaluation.ts";
import type { AskedEntity } from "../../domain/evaluation-request.ts";
import type { EvaluationRequest } from "../../domain/requests.ts";
import { callOf } from "../calls/call.ts";
import { pause } from "./bulk.ts";
import type { BulkStreamOptions } from "./bulk-streams.ts";
import { forMessage, identityOf, obligationMessages, receiptMessage } from "./messages.ts";

/** @param takeItems holds the questions of a call to quotas; resolves with what is told how many were recorded */
export function createAuthorizationService(
  evaluations: Evaluations,
  takeItems: BulkStreamOptions["takeItems"],
): ServiceImpl<typeof AuthorizationService> {
  const evaluate = async (
    asked: readonly Asked[],
    context: HandlerContext,
    { semantic = "execute_all", spread = (requests) => requests }: Partial<Asking> = {},
  ) => {
    const identity = identityOf(context);
    const questions = asked.map((one, position) => pathed(one, asked.length === 1 ? "" : `evaluations[${position}].`));
    const requests = spread(evaluations.prepare(identity.caller, questions));
    // Nothing is asked before the caller is known to hold what all of it needs.
    const isDpop = /^dpop /i.test(context.requestHeader.get("authorization") ?? "");
    requireScopes(identity.caller, evaluations.scopesFor(identity.caller, requests), isDpop ? "DPoP" : "Bearer");
    const call = callOf(context);
    // The call itself was counted as one of them.
    const settle = requests.length > 1 ? await takeItems(call, requests.length - 1, context.signal) : undefined;
    const answers = await evaluations.evaluate(identity, requests, semantic, () => pause(call));
    settle?.(answers.length - 1);
    return { requests, answers };
  };
  const evaluateOne = async (asked: Asked, context: HandlerContext) => {
    const { answers } = await evaluate([asked], context);
    return answerOf(answers[0] as Decided, context);
  };
  return {
    evaluate: evaluateOne,
    async evaluateMany(request, context) {
      // Without questions, the request is one itself (AuthZEN 1.0, Access Evaluations API).
      if (request.evaluations.length === 0) {
        const { decision, context: known } = await evaluateOne(request, context);
        return { decision, ...(known !== undefined && { context: known }) };
      }
      const semantic = semanticOf(request);
      const { answers } = await evaluate(request.evaluations.map(withDefaults(request)), context, { semantic });
      return { evaluations: answers.map((decided) => answerOf(decided, context)) };
    },
    async searchActions({ subject, resource, context: asked }, context) {
      const question = { subject, resource, context: asked, action: { name: "access" } };
      const spread: Asking["spread"] = (requests) => requests.flatMap(evaluations.withEveryAction);
      const { requests, answers } = await evaluate([question], context, { spread });
      return { results: requests.flatMap(({ operation: name }, at) => (answers[at]?.allow ? [{ name }] : [])) };
    },
  };
}

/** How the questions of a call are asked. */
interface Asking {
  readonly semantic: EvaluationsSemantic;
  /** Makes of what is asked what is evaluated. */
  readonly spread: (requests: readonly EvaluationRequest[]) => readonly EvaluationRequest[];
}

/** A question, of which members may be missing. */
interface Asked {
  readonly subject?: Subject | undefined;
  readonly action?: Pick<Action, "name" | "properties"> | undefined;
  readonly resource?: Resource | undefined;
  readonly context?: StructObject | undefined;
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

/** What a question leaves out is the request's (AuthZEN 1.0, Default values). */
function withDefaults({ subject, action, resource, context }: EvaluateManyRequest): (one: Evaluation) => Asked {
  return (one) => ({
    subject: one.subject ?? subject,
    action: one.action ?? action,
    resource: one.resource ?? resource,
    context: one.context ?? context,
  });
}

/**
 * A request's defaults may be empty, so that what is needed is looked at in the questions themselves.
 *
 * @throws ServiceError `invalid_request`
 */
function pathed({ subject, action, resource, context }: Asked, path: string): PathedQuestion {
  const needed = {
    ...(subject === undefined ? { subject } : { "subject.type": subject.type, "subject.id": subject.id }),
    ...(action === undefined ? { action } : { "action.name": action.name }),
    ...(resource === undefined ? { resource } : { "resource.type": resource.type, "resource.id": resource.id }),
  };
  const missing = Object.entries(needed).filter(([, value]) => value === undefined || value === "");
  if (subject === undefined || action === undefined || resource === undefined || missing.length > 0) {
    throw invalidRequests(
      missing.map(([name]): Violation => ({ field: `${path}${name}`, rule: "required", message: "value is required" })),
    );
  }
  return {
    path,
    question: {
      subject: entityOf(subject),
      action: { name: action.name, properties: (action.properties ?? {}) as JsonObject },
      resource: entityOf(resource),
      context: (context ?? {}) as JsonObject,
    },
  };
}

function entityOf({ type, id, properties = {} }: Subject | Resource): AskedEntity {
  return { type, id, properties: properties as JsonObject };
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
