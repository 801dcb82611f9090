/** The AuthZEN service over its domain: messages to questions, and decisions to answers. */
import type { JsonObject as StructObject } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type {
  Action,
  AuthorizationService,
  EvaluateManyRequest,
  EvaluateResponse,
  Evaluation,
  PageRequest,
  Resource,
  SearchDecision,
  SearchedEntity,
  Subject,
} from "../../../gen/platform/authzen/v1/authorization_pb.ts";
import { invalidRequest, invalidRequests, type Violation } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { StopRule } from "../../domain/bulk.ts";
import type { Decided } from "../../domain/decision.ts";
import {
  candidateQuestions,
  type Evaluations,
  type EvaluationsSemantic,
  evaluationsSemantics,
  type PathedQuestion,
  type Searched,
  searchPage,
  stopRuleOf,
} from "../../domain/evaluation.ts";
import type { AskedEntity, Question } from "../../domain/evaluation-request.ts";
import { callOf } from "../calls/call.ts";
import { type Asking, type AskingOptions, createAsking } from "./bulk.ts";
import { forMessage, obligationMessages, receiptMessage } from "./messages.ts";

interface AuthorizationOptions extends AskingOptions {
  /** Most bytes of one call's questions in total, each as JSON. */
  readonly maxQuestionBytes: number;
}

export function createAuthorizationService(
  evaluations: Evaluations,
  options: AuthorizationOptions,
): ServiceImpl<typeof AuthorizationService> {
  const asking = createAsking(evaluations, options);
  const evaluate = async (questions: readonly PathedQuestion[], context: HandlerContext, stopsAfter?: StopRule) => {
    const answers = await asking.decide(await asking.prepare(questions, context), context, stopsAfter);
    return answers.map((decided) => answerOf(decided, context));
  };
  const evaluateOne = async (asked: Asked, context: HandlerContext) =>
    (await evaluate([requiredQuestion(asked, "")], context))[0] as EvaluateResponse;
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
      const questions = asked.map((one, position) => requiredQuestion(one, `evaluations[${position}].`));
      return { evaluations: await evaluate(questions, context, stopRuleOf(semantic)) };
    },
    ...createSearches(evaluations, asking, options.maxQuestionBytes),
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

// Converts AuthZEN messages to questions.

/** A question whose members may be missing. */
interface Asked {
  readonly subject?: Pick<Subject, "type" | "id" | "properties"> | undefined;
  readonly action?: Pick<Action, "name" | "properties"> | undefined;
  readonly resource?: Pick<Resource, "type" | "id" | "properties"> | undefined;
  readonly context?: StructObject | undefined;
}

/**
 * Checks the question after defaults were applied, because the request's defaults may be empty.
 *
 * @param path of the question in the request: empty, or ending with a dot
 * @param optional the member whose name or id may be missing
 * @throws ServiceError `invalid_request`
 */
function requiredQuestion(asked: Asked, path: string, optional?: keyof Question): PathedQuestion {
  const { subject, action, resource, context } = asked;
  const needed = {
    ...(subject === undefined ? { subject } : { "subject.type": subject.type, "subject.id": subject.id }),
    ...(action === undefined ? { action } : { "action.name": action.name }),
    ...(resource === undefined ? { resource } : { "resource.type": resource.type, "resource.id": resource.id }),
  };
  const missing = Object.entries(needed).filter(
    ([name, value]) =>
      (value === undefined || value === "") && name !== `${optional}.id` && name !== `${optional}.name`,
  );
  if (subject === undefined || action === undefined || resource === undefined || missing.length > 0) {
    throw invalidRequests(
      missing.map(([name]): Violation => ({ field: `${path}${name}`, rule: "required", message: "value is required" })),
    );
  }
  return {
    question: {
      subject: entityOf(subject),
      action: { name: action.name, properties: (action.properties ?? {}) as JsonObject },
      resource: entityOf(resource),
      context: (context ?? {}) as JsonObject,
    },
    at: (field) => `${path}${field}`,
  };
}

/**
 * Limits the total size of a call's questions as JSON. Shared parts count for every question, because each is recorded
 * and answered in full.
 *
 * @throws ServiceError `invalid_request`
 */
function requireBytes(asked: readonly Asked[], maxBytes: number): void {
  const known = new Map<unknown, number>();
  const bytesOf = (part: unknown) => {
    const bytes = known.get(part) ?? (part === undefined ? 0 : Buffer.byteLength(JSON.stringify(part)));
    known.set(part, bytes);
    return bytes;
  };
  let bytes = 0;
  for (const { subject, action, resource, context } of asked)
    bytes += bytesOf(subject) + bytesOf(action) + bytesOf(resource) + bytesOf(context);
  if (bytes > maxBytes)
    throw invalidRequest(
      "evaluations",
      "repeated.max_bytes",
      `must make questions of at most ${maxBytes} bytes in all`,
    );
}

function entityOf({ type, id, properties = {} }: Pick<Subject, "type" | "id" | "properties">): AskedEntity {
  return { type, id, properties: properties as JsonObject };
}

// AuthZEN searches: each candidate is a question, and the answer names the permitted ones.

function createSearches(
  evaluations: Evaluations,
  asking: Asking,
  maxQuestionBytes: number,
): Pick<ServiceImpl<typeof AuthorizationService>, "searchSubjects" | "searchResources" | "searchActions"> {
  const search = async (searched: Searched, { page: asked, ...question }: SearchAsked, context: HandlerContext) => {
    const template = requiredQuestion(question, "", searched);
    // Report faults that all questions share once, for the request.
    await asking.prepare([template], context);
    const others = searched === "action" ? evaluations.actionNames().map((name) => ({ name })) : undefined;
    const questions = candidateQuestions(searched, template.question, others, maxQuestionBytes);
    const names = questions.map(({ question }) =>
      searched === "action" ? question.action.name : question[searched].id,
    );
    const page = searchPage(asked, { ...template.question, searched, names } as unknown as JsonObject, names.length);
    const named = names.slice(page.from);
    const requests = page.limit === 0 ? [] : await asking.prepare(questions.slice(page.from), context);
    const stopsAfter = page.limit === undefined ? undefined : stopAt(page.limit);
    const answers = await asking.decide(requests, context, stopsAfter, true);
    const found = named.filter((_, i) => answers[i]?.allow);
    return {
      found,
      answer: {
        context: {
          decisions: answers.map((decided, i) =>
            decisionMessage(decided, context, { [searched === "action" ? "name" : "id"]: named[i] }),
          ),
        },
        ...(asked !== undefined && {
          page: { nextToken: page.tokenAt(page.from + answers.length), count: BigInt(found.length) },
        }),
      },
    };
  };
  const searchEntities = async (
    searched: "subject" | "resource",
    entity: SearchedEntity | undefined,
    request: SearchAsked,
    context: HandlerContext,
  ) => {
    const { type = "" } = entity ?? {};
    const { found, answer } = await search(searched, { ...request, [searched]: unnamed(entity) }, context);
    return {
      ...answer,
      results: found.map((id) => ({ $typeName: "platform.authzen.v1.FoundEntity" as const, type, id })),
    };
  };
  return {
    searchSubjects: ({ subject, ...request }, context) => searchEntities("subject", subject, request, context),
    searchResources: ({ resource, ...request }, context) => searchEntities("resource", resource, request, context),
    async searchActions(request, context) {
      const [name = "access"] = evaluations.actionNames();
      const { found, answer } = await search("action", { ...request, action: { name } }, context);
      return {
        ...answer,
        results: found.map((name) => ({ $typeName: "platform.authzen.v1.FoundAction" as const, name })),
      };
    },
  };
}

/** A search as a question; the entity that is searched for has an empty id. */
interface SearchAsked extends Asked {
  readonly page?: PageRequest | undefined;
}

/** The entity that is searched for, with an empty id. */
function unnamed(entity: SearchedEntity | undefined): Asked["subject"] {
  return (
    entity && { type: entity.type, id: "", ...(entity.properties !== undefined && { properties: entity.properties }) }
  );
}

/** Ends a search at its last allowed result. */
function stopAt(limit: number): StopRule {
  let found = 0;
  return (isAllowed) => isAllowed && ++found >= limit;
}

function decisionMessage(
  { decisionId, allow, receipt }: Decided,
  context: HandlerContext,
  about: Pick<SearchDecision, "id" | "name">,
): SearchDecision {
  // Receipts for a thousand candidates are sent only on request.
  const isAskedFor = callOf(context).receiptDetail !== undefined;
  return {
    $typeName: "platform.authzen.v1.SearchDecision",
    decisionId,
    decision: allow,
    ...about,
    receipt: isAskedFor ? receiptMessage(context, receipt) : undefined,
  };
}
