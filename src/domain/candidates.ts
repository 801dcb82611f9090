/**
 * Questions of a search (AuthZEN Authorization API 1.0, Search APIs). Policies do not list the principals that they
 * permit, and the service has no directory. The request lists candidates in `context.candidates`; each becomes one
 * question. Pure.
 */
import { invalidRequest, invalidRequests, maxViolations, type Violation } from "../base/errors.ts";
import type { JsonObject, JsonValue } from "../base/json.ts";
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
