/**
 * Questions of a search (AuthZEN Authorization API 1.0, Search APIs). Policies do not list the principals that they
 * permit, and the service has no directory. The request lists candidates in `context.candidates`; each becomes one
 * question. Pure.
 */
import { createHash } from "node:crypto";
import { invalidRequest, invalidRequests, maxViolations, type Violation } from "../base/errors.ts";
import type { JsonObject, JsonValue } from "../base/json.ts";
import { parseDecimal } from "../base/text-forms.ts";
import { canonicalText } from "../ledger/record/canonical.ts";
import type { PathedQuestion } from "./evaluation.ts";
import type { Question } from "./evaluation-request.ts";

export type Searched = "subject" | "resource" | "action";

/** The same bound as for the items of a bulk call. */
export const maxCandidates = 1_000;
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
  if (!isJsonObject(candidate)) return fault("", "json.type", "must be an object");
  const member = searched === "action" ? "name" : "id";
  const { [member]: name = null, properties = null } = candidate;
  if (name === null || name === "") return fault(`.${member}`, "required", "value is required");
  if (typeof name !== "string") return fault(`.${member}`, "json.type", "must be a string");
  if (name.length > maxLength) return fault(`.${member}`, "string.max_len", `must be at most ${maxLength} characters`);
  if (seen.has(name)) return fault(`.${member}`, "repeated.unique", "must be no other candidate's");
  seen.add(name);
  if (properties !== null && !isJsonObject(properties)) return fault(".properties", "json.type", "must be an object");
  const common = question[searched].properties;
  // Its own come first, so that paths count as its own do.
  const all = { ...properties, ...common, ...properties };
  if (searched === "action") return { name, properties: all };
  const { type } = question[searched];
  const given = candidate.type ?? type;
  if (given !== type) return fault(".type", "candidate.type", "must be the type that is searched for");
  return { type, id: name, properties: all };
}

function isJsonObject(value: JsonValue): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/*
 * Pages of a search (AuthZEN Authorization API 1.0, Pagination). A token has the position of the next page, its limit,
 * and a digest of the search: `<position>.<limit>.<digest>`. It need not be authentic: a forged one only skips the
 * caller's own candidates.
 */

export interface PageAsked {
  /** Token of the previous page; empty for the first. */
  readonly token: string;
  /** Most results of a page, 0 to 2^53-1. */
  readonly limit?: bigint | undefined;
}

export interface SearchPage {
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
