/** Answers AuthZEN questions, alone and of searches: whether a subject, who need not be the caller, may do something. */
import { createHash } from "node:crypto";
import type { Caller } from "../base/caller.ts";
import { invalidRequest, invalidRequests, maxViolations, ServiceError, type Violation } from "../base/errors.ts";
import { isObject, type JsonObject, type JsonValue } from "../base/json.ts";
import { isLongerThan, parseDecimal } from "../base/text-forms.ts";
import { canonicalText } from "../ledger/record/canonical.ts";
import { policyActions } from "../policy/model/schema.ts";
import { type BulkCall, type BulkLedger, handleAll, type StopRule } from "./bulk.ts";
import { type Decided, type DecisionDependencies, decide, scopedRoute } from "./decision.ts";
import { type RecordingLedger, unsupported, wrongQuestion } from "./deployment.ts";
import { evaluationRequest, type Question } from "./evaluation-request.ts";
import type { CallIdentity } from "./record.ts";
import type { EvaluationRequest } from "./requests.ts";
import { union } from "./routes.ts";

/** The scope to ask on behalf of another subject. Policy must permit it as well. */
export const delegationScope = "decisions.delegate";

/** When a call skips its remaining questions. */
export const evaluationsSemantics = ["execute_all", "deny_on_first_deny", "permit_on_first_permit"] as const;
export type EvaluationsSemantic = (typeof evaluationsSemantics)[number];

export type Evaluations = ReturnType<typeof createEvaluations>;

export interface PathedQuestion {
  readonly question: Question;
  /** Returns the path, in the request, of a member of the question. */
  readonly at: (field: string) => string;
}

/** Returns the rule of a semantic; undefined if all questions are evaluated. */
export function stopRuleOf(semantic: EvaluationsSemantic): StopRule | undefined {
  if (semantic === "execute_all") return undefined;
  return (isAllowed) => isAllowed === (semantic === "permit_on_first_permit");
}

/** Questions prepared in one turn. */
const readAtOnce = 16;

type EvaluationDependencies = DecisionDependencies & { readonly ledger: BulkLedger };

export function createEvaluations(dependencies: EvaluationDependencies) {
  const { deployment, engine } = dependencies;
  const actionOf = (name: string) => policyActions.find((action) => action === name) ?? engine.actions.get(name);
  const ask = (call: CallIdentity, request: EvaluationRequest, ledger: RecordingLedger) =>
    decide({ ...dependencies, ledger }, call, { route: "evaluation", request });
  return {
    /**
     * Prepares the questions, with pauses between them.
     *
     * @throws ServiceError `invalid_request`, with the paths that the questions give
     */
    async prepare(
      caller: Caller,
      questions: readonly PathedQuestion[],
      pause: BulkCall<Decided>["pause"],
    ): Promise<readonly EvaluationRequest[]> {
      const violations: Violation[] = [];
      const requests: EvaluationRequest[] = [];
      for (const [i, { question, at }] of questions.entries()) {
        if (i > 0 && i % readAtOnce === 0) await pause();
        const read = evaluationRequest(question, caller, actionOf);
        const wrong = "operation" in read ? wrongQuestion(deployment, read).map(asAsked) : read;
        violations.push(...wrong.map((violation) => ({ ...violation, field: at(violation.field) })));
        if ("operation" in read) requests.push(read);
        if (violations.length >= maxViolations) break;
      }
      if (violations.length > 0) throw invalidRequests(violations.slice(0, maxViolations));
      return requests;
    },
    /**
     * Returns the scopes that the questions need, those of their routes included.
     *
     * @throws ServiceError `missing_scope` for questions about another subject under a session token, whatever its
     *   scopes
     */
    scopesFor({ authSource }: Caller, requests: readonly EvaluationRequest[]): readonly string[] {
      if (authSource === "session_token" && requests.some(({ on_behalf_of }) => on_behalf_of !== undefined)) {
        const scopes = { requiredScopes: [delegationScope], missingScopes: [delegationScope] };
        throw new ServiceError("missing_scope", "a session token can only ask about its own client", scopes);
      }
      return requests.reduce<readonly string[]>((scopes, request) => {
        const own = deployment.scopes.required(scopedRoute({ route: "evaluation", request }));
        return union(union(scopes, own), request.on_behalf_of === undefined ? [] : [delegationScope]);
      }, []);
    },
    /**
     * Evaluates the questions in order, with pauses between them, and records each; one durable commit carries all
     * records. Rejects with `ServiceError`, such as `store_unavailable`; then no question is answered.
     */
    async evaluate(
      call: CallIdentity,
      requests: readonly EvaluationRequest[],
      pause: BulkCall<Decided>["pause"],
      stopsAfter?: StopRule,
    ): Promise<readonly Decided[]> {
      const { ledger } = dependencies;
      const [only] = requests;
      if (only === undefined) return [];
      if (requests.length === 1) return [await ask(call, only, ledger)];
      const results = await handleAll(ledger, call, {
        count: requests.length,
        handle: (index, identity, own) => ask(identity, requests[index] as EvaluationRequest, own),
        ...(stopsAfter !== undefined && { stopsAfter }),
        pause,
      });
      return results.flatMap((result) => {
        if (result !== undefined && "refusal" in result) throw result.refusal;
        return result === undefined ? [] : [result.answer];
      });
    },
    /** Names of the supported actions: the six, then those that policies map to one of them. */
    actionNames(): readonly string[] {
      const isSupported = (name: string) => {
        const operation = actionOf(name);
        return operation !== undefined && unsupported(deployment, { operation }).length === 0;
      };
      return [...policyActions, ...engine.actions.keys()].filter(isSupported);
    },
  };
}

/** Renames the violation's field to the question's member. */
function asAsked(violation: Violation): Violation {
  const { field } = violation;
  return { ...violation, field: field === "operation" ? "action.name" : `resource.properties.${field}` };
}

// Questions of a search (AuthZEN Authorization API 1.0, Search APIs). Policies do not list the principals that they
// permit, and the service has no directory. The request lists candidates in `context.candidates`; each becomes one
// question. Pure.

export type Searched = "subject" | "resource" | "action";

/** The same bound as for the items of a bulk call. */
const maxCandidates = 1_000;
const maxLength = 256;
const path = "context.candidates";

/**
 * Returns the questions of a search, in the order of its candidates.
 *
 * @param question the search as a question, without the id or name that is searched for. Its properties apply to
 *   candidates that lack them
 * @param others candidates if the request names none; undefined if the request must name them
 * @param maxBytes bound of all questions as JSON; members that they share count for each of them
 * @throws ServiceError `invalid_request`
 */
export function candidateQuestions(
  searched: Searched,
  question: Question,
  others: readonly JsonObject[] | undefined,
  maxBytes: number,
): readonly PathedQuestion[] {
  const { candidates: named, ...context } = question.context;
  const candidates = named ?? others;
  if (candidates === undefined)
    throw invalidRequest(
      path,
      "required",
      `value is required: ${searched}s are searched for among those that it names`,
    );
  if (!Array.isArray(candidates)) throw invalidRequest(path, "json.type", "must be an array");
  if (candidates.length > maxCandidates)
    throw invalidRequest(path, "repeated.max_items", `must have at most ${maxCandidates} items`);
  const shared = { ...question, context };
  if (bytesOf(shared) * candidates.length + bytesOf(candidates) > maxBytes)
    throw invalidRequest(path, "repeated.max_bytes", `must make questions of at most ${maxBytes} bytes in all`);
  const violations: Violation[] = [];
  const seen = new Set<string>();
  const questions = candidates.flatMap((candidate: JsonValue, at): readonly PathedQuestion[] => {
    const own = readCandidate(searched, question, candidate, seen);
    if ("field" in own) violations.push({ ...own, field: `${path}[${at}]${own.field}` });
    return "field" in own ? [] : [{ question: { ...shared, [searched]: own }, at: pathOf(searched, at) }];
  });
  if (violations.length > 0) throw invalidRequests(violations.slice(0, maxViolations));
  return questions;
}

/** Maps the path of a violation to the candidate if it is about what the search looks for. */
function pathOf(searched: Searched, at: number): PathedQuestion["at"] {
  return (field) => (field.startsWith(`${searched}.`) ? `${path}[${at}]${field.slice(searched.length)}` : field);
}

function readCandidate(searched: Searched, question: Question, candidate: JsonValue, seen: Set<string>) {
  const fault = (field: string, rule: string, message: string): Violation => ({ field, rule, message });
  if (!isObject(candidate)) return fault("", "json.type", "must be an object");
  const member = searched === "action" ? "name" : "id";
  const { [member]: name = null, properties = null } = candidate;
  if (name === null || name === "") return fault(`.${member}`, "required", "value is required");
  if (typeof name !== "string") return fault(`.${member}`, "json.type", "must be a string");
  if (isLongerThan(name, maxLength))
    return fault(`.${member}`, "string.max_len", `must be at most ${maxLength} characters`);
  if (seen.has(name)) return fault(`.${member}`, "repeated.unique", "must differ from those of the other candidates");
  seen.add(name);
  if (properties !== null && !isObject(properties)) return fault(".properties", "json.type", "must be an object");
  const common = question[searched].properties;
  // The candidate's own properties come first, so that positions in paths of violations are theirs.
  const all = { ...properties, ...common, ...properties };
  if (searched === "action") return { name, properties: all };
  const { type } = question[searched];
  const given = candidate.type ?? type;
  if (given !== type) return fault(".type", "candidate.type", "must be the type that is searched for");
  return { type, id: name, properties: all };
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/*
 * Pages of a search (AuthZEN Authorization API 1.0, Pagination). A token has the position of the next page, its limit,
 * and a digest of the search: `<position>.<limit>.<digest>`. It need not be authentic: a forged one only skips the
 * caller's own candidates.
 */

interface PageAsked {
  /** Token of the previous page; empty for the first. */
  readonly token: string;
  /** Most results of a page, 0 to 2^53-1. */
  readonly limit?: bigint | undefined;
}

interface SearchPage {
  readonly from: number;
  readonly limit: number | undefined;
  /** Returns the token of the page that begins at this position; empty if no candidate is left. */
  tokenAt(position: number): string;
}

/**
 * @param search everything that must not change between pages
 * @param count of candidates
 * @throws ServiceError `invalid_request` for a token of another search, or with another limit
 */
export function searchPage(asked: PageAsked | undefined, search: JsonObject, count: number): SearchPage {
  if (asked === undefined || (asked.token === "" && asked.limit === undefined)) return whole;
  const digest = createHash("sha256").update(canonicalText(search)).digest("base64url");
  const { from, limit } =
    asked.token === "" ? { from: 0, limit: Number(asked.limit) } : readToken(asked.token, digest, count);
  if (asked.limit !== undefined && Number(asked.limit) !== limit)
    throw invalidRequest("page.limit", "page.unchanged", "must be that of the page before, or left out");
  return { from, limit, tokenAt: (position) => (position < count ? `${position}.${limit}.${digest}` : "") };
}

const whole: SearchPage = { from: 0, limit: undefined, tokenAt: () => "" };

function readToken(token: string, digest: string, count: number): { readonly from: number; readonly limit: number } {
  const [position = "", size = "", of, ...more] = token.split(".");
  const [from, limit] = [parseDecimal(position), parseDecimal(size)];
  if (from !== undefined && from < count && limit !== undefined && of === digest && more.length === 0)
    return { from, limit };
  throw invalidRequest(
    "page.token",
    "page.token",
    "does not belong to this search: all other members must be unchanged",
  );
}
