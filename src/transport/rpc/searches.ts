/** AuthZEN searches: each candidate is a question, and the answer names the permitted ones. */
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type {
  AuthorizationService,
  Page,
  PageRequest,
  SearchContext,
  SearchDecision,
  SearchedEntity,
} from "../../../gen/platform/authzen/v1/authorization_pb.ts";
import type { JsonObject } from "../../base/json.ts";
import type { StopRule } from "../../domain/bulk.ts";
import type { Decided } from "../../domain/decision.ts";
import { candidateQuestions, type Evaluations, type Searched, searchPage } from "../../domain/evaluation.ts";
import { callOf } from "../calls/call.ts";
import type { Asking } from "./asking.ts";
import { receiptMessage } from "./messages.ts";
import { type Asked, requiredQuestion } from "./questions.ts";

export interface SearchOptions {
  /** Most bytes of one call's questions in total, each as JSON. */
  readonly maxQuestionBytes: number;
}

type Searches = Pick<ServiceImpl<typeof AuthorizationService>, "searchSubjects" | "searchResources" | "searchActions">;

export function createSearches(
  evaluations: Pick<Evaluations, "actionNames">,
  asking: Asking,
  { maxQuestionBytes }: SearchOptions,
): Searches {
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
    const answers = await asking.decide(requests, context, page.limit === undefined ? undefined : stopAt(page.limit));
    const found = named.filter((_, i) => answers[i]?.allow);
    return {
      found,
      answer: {
        context: searchContext(
          answers.map((decided, i) =>
            decisionMessage(decided, context, { [searched === "action" ? "name" : "id"]: named[i] }),
          ),
        ),
        ...(asked !== undefined && { page: pageMessage(page.tokenAt(page.from + answers.length), found.length) }),
      },
    };
  };
  return {
    async searchSubjects(request, context) {
      const { type = "" } = request.subject ?? {};
      const { found, answer } = await search("subject", { ...request, subject: unnamed(request.subject) }, context);
      return {
        ...answer,
        results: found.map((id) => ({ $typeName: "platform.authzen.v1.FoundEntity" as const, type, id })),
      };
    },
    async searchResources(request, context) {
      const { type = "" } = request.resource ?? {};
      const { found, answer } = await search("resource", { ...request, resource: unnamed(request.resource) }, context);
      return {
        ...answer,
        results: found.map((id) => ({ $typeName: "platform.authzen.v1.FoundEntity" as const, type, id })),
      };
    },
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

function searchContext(decisions: SearchDecision[]): SearchContext {
  return { $typeName: "platform.authzen.v1.SearchContext", decisions };
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

function pageMessage(nextToken: string, count: number): Page {
  return { $typeName: "platform.authzen.v1.Page", nextToken, count: BigInt(count) };
}
