import type { FastifyInstance, FastifyRequest } from "fastify";
import { ServiceError } from "../base/errors.ts";
import type { PublishedLogs } from "../ledger/ports/ledger.ts";
import {
  isContentParameter,
  openParameters,
  parseSearch,
  type SearchCriteria,
  searchParameters,
} from "../ledger/search/search-query.ts";
import { viewerOfRequest } from "./ledger-access.ts";
import type { ViewerLimits } from "./viewer-limits.ts";

interface OfLog {
  Params: { log: string };
}

/** Bytes of a body: enough for every parameter at its longest. */
const maxBodyBytes = 64 * 1024;

/**
 * Adds `GET` and `POST /ledger/<name>/search`: positions of the matching records, in the order of the log; `next`, if
 * present, is the `after` of the next page. Searches for the content of requests need the body of a POST, a JSON
 * object, and an operator or the scope that allows them.
 */
export function addSearchRoute(
  scope: FastifyInstance,
  serviceName: string,
  logs: PublishedLogs,
  viewerLimits: ViewerLimits,
): void {
  const answer = async (name: string, criteria: SearchCriteria, run: Turned) => {
    const page = await run(() => logs.search(name, criteria));
    if (page === undefined) throw new ServiceError("no_route", "there is no such log");
    const { found, next } = page;
    return {
      service: serviceName,
      log: name,
      found: found.map(({ leafIndex, recordId, kind, recordedAt, erased }) => ({
        leaf_index: leafIndex,
        record_id: recordId,
        kind,
        recorded_at: recordedAt,
        erased,
      })),
      ...(next !== undefined && { next }),
    };
  };
  scope.addContentTypeParser("application/json", { parseAs: "buffer", bodyLimit: maxBodyBytes }, (_, body, done) =>
    done(null, body),
  );
  scope.get<OfLog & { Querystring: Query }>("/ledger/:log/search", async (request, reply) => {
    const criteria = readQuery(request.query);
    return answer(request.params.log, criteria, (work) => viewerLimits.search(viewerOfRequest(request), reply, work));
  });
  scope.post<OfLog & { Querystring: Query }>("/ledger/:log/search", async (request, reply) => {
    refuseOthers(request.query, []);
    const members = readMembers(request);
    const { contentRefusal } = viewerOfRequest(request);
    if (contentRefusal !== undefined && Object.keys(members).some(isContentParameter)) throw contentRefusal;
    return answer(request.params.log, parse(members), (work) =>
      viewerLimits.search(viewerOfRequest(request), reply, work),
    );
  });
}

type Turned = <Result>(work: () => Promise<Result>) => Promise<Result>;

function readQuery(query: Query): SearchCriteria {
  if (Object.keys(query).some(isContentParameter))
    throw new ServiceError("invalid_request", "send personal values in the body of a POST, not in the URL");
  refuseOthers(query, openParameters);
  // A repeated parameter is a list.
  if (Object.values(query).some((value) => typeof value !== "string"))
    throw new ServiceError("invalid_request", "a parameter is given twice");
  return parse(query as Readonly<Record<string, string>>);
}

/** Reads a flat object of strings and numbers. */
function readMembers({ body, headers }: FastifyRequest): Readonly<Record<string, string>> {
  const type = headers["content-type"] ?? "";
  if (!(body instanceof Uint8Array) || !/^application\/json *(; *charset="?utf-8"?)?$/i.test(type))
    throw new ServiceError("unsupported_media_type", "the body must be application/json");
  if ((headers["content-encoding"] ?? "identity").toLowerCase() !== "identity")
    throw new ServiceError("unsupported_media_type", "content encodings are not supported on this route");
  const members = parseObject(body);
  refuseOthers(members, searchParameters);
  return Object.fromEntries(
    Object.entries(members).map(([name, value]) => {
      if (typeof value === "string" || typeof value === "number") return [name, String(value)];
      throw new ServiceError("invalid_request", `${name} must be a string or a number`);
    }),
  );
}

/** Parses RFC 8259 JSON without duplicate names, on which parsers disagree. */
function parseObject(body: Uint8Array): Query {
  const refusal = new ServiceError("invalid_request", "the body must be a JSON object, each member once");
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    value = JSON.parse(text);
  } catch {
    throw refusal;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw refusal;
  // If no value is an object, every string before a colon is a name.
  const isFlat = Object.values(value).every((member) => typeof member !== "object");
  const names = text.match(/"(?:[^"\\]|\\.)*"\s*:/g)?.length ?? 0;
  if (isFlat && names !== Object.keys(value).length) throw refusal;
  return value as Query;
}

function parse(given: Readonly<Record<string, string>>): SearchCriteria {
  const criteria = parseSearch(given);
  if ("limit" in criteria) return criteria;
  throw new ServiceError(
    "invalid_request",
    criteria.map(({ parameter, message }) => `${parameter} ${message}`).join("; "),
  );
}

/** Parameters of a URL; a repeated one is a list. */
export type Query = Readonly<Record<string, unknown>>;

/**
 * Refuses unknown parameters: a misspelt one would answer another question.
 *
 * @throws ServiceError `invalid_request` if there are others than these
 */
export function refuseOthers(query: Query, parameters: readonly string[]): void {
  if (Object.keys(query).some((name) => !parameters.includes(name)))
    throw new ServiceError("invalid_request", `the parameters are ${parameters.join(", ")}`);
}
