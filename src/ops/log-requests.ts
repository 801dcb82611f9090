/** Reads requests about logs: parameters of a URL, JSON bodies, and criteria of a search. */

import type { FastifyRequest } from "fastify";
import { ServiceError } from "../base/errors.ts";
import { hasRepeatedMember, isObject, orUndefined, parseJson } from "../base/json.ts";
import {
  isContentParameter,
  parseSearch,
  type SearchCriteria,
  searchParameters,
} from "../ledger/search/search-query.ts";

/** Parameters, each given once. */
export type Members = Readonly<Record<string, string>>;

/** Reads parameters of a URL, of which each may be given once. */
export function readQuery(query: Query, parameters: readonly string[]): Members {
  if (Object.keys(query).some(isContentParameter))
    throw new ServiceError("invalid_request", "send personal values in the body of a POST, not in the URL");
  refuseOthers(query, parameters);
  // A repeated parameter is a list.
  if (Object.values(query).some((value) => typeof value !== "string"))
    throw new ServiceError("invalid_request", "a parameter is given twice");
  return query as Members;
}

/**
 * Reads an object from the body.
 *
 * @throws ServiceError if it is not JSON of these members
 */
export function readObject({ body, headers }: FastifyRequest, parameters: readonly string[]): Query {
  const type = headers["content-type"] ?? "";
  if (!(body instanceof Uint8Array) || !/^application\/json *(; *charset="?utf-8"?)?$/i.test(type))
    throw new ServiceError("unsupported_media_type", "the body must be application/json");
  if ((headers["content-encoding"] ?? "identity").toLowerCase() !== "identity")
    throw new ServiceError("unsupported_media_type", "content encodings are not supported on this route");
  const members = parseObject(body);
  refuseOthers(members, parameters);
  return members;
}

/** Reads the parameters of a search from the body: a flat object of strings, numbers and booleans. */
export function readMembers(request: FastifyRequest): Members {
  const members = readObject(request, searchParameters);
  return Object.fromEntries(
    Object.entries(members).map(([name, value]) => {
      if (["string", "number", "boolean"].includes(typeof value)) return [name, String(value)];
      throw new ServiceError("invalid_request", `${name} must be a string or a number`);
    }),
  );
}

/** Parses RFC 8259 JSON without repeated names, on which parsers disagree. */
function parseObject(body: Uint8Array): Query {
  const refusal = new ServiceError("invalid_request", "the body must be a JSON object, each member once");
  const text = orUndefined(() => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body)) ?? "";
  const value = orUndefined(() => parseJson(text));
  if (!isObject(value) || hasRepeatedMember(text, value)) throw refusal;
  return value;
}

export function parseCriteria(given: Members, nowMs: number): SearchCriteria {
  const criteria = parseSearch(given, nowMs);
  if ("limit" in criteria) return criteria;
  throw new ServiceError(
    "invalid_request",
    criteria.map(({ parameter, message }) => `${parameter} ${message}`).join("; "),
  );
}

/** Parameters of a URL; a repeated one is a list. */
export type Query = Readonly<Record<string, unknown>>;

/**
 * Refuses unknown parameters: to ignore a misspelt one would answer a different query.
 *
 * @throws ServiceError `invalid_request` if there are others than these
 */
export function refuseOthers(query: Query, parameters: readonly string[]): void {
  if (Object.keys(query).some((name) => !parameters.includes(name)))
    throw new ServiceError("invalid_request", `the parameters are ${parameters.join(", ")}`);
}
