/** Search over HTTP. */
import type { FastifyInstance } from "fastify";
import { ServiceError } from "../base/errors.ts";
import type { PublishedLogs } from "../ledger/ports.ts";
import { type AskedSearch, parseSearch, searchParameters } from "../ledger/search-query.ts";
import { viewerOfRequest } from "./ledger-access.ts";
import { type Query, refuseOthers } from "./parameters.ts";
import type { Turns } from "./turns.ts";

/**
 * Adds `GET /ledger/<name>/search`: where the records stand that have what the parameters of `searchParameters` say, in
 * the order of the log; `next`, where there is one, is the `after` of the page that follows.
 */
export function addSearchRoute(scope: FastifyInstance, serviceName: string, logs: PublishedLogs, turns: Turns): void {
  scope.get<{ Params: { log: string }; Querystring: Query }>("/ledger/:log/search", async (request, reply) => {
    const { params } = request;
    const query = readQuery(request.query);
    const page = await turns.search(viewerOfRequest(request), reply, () => logs.search(params.log, query));
    if (page === undefined) throw new ServiceError("no_route", "there is no such log");
    return {
      service: serviceName,
      log: params.log,
      found: page.found.map(({ leafIndex, recordId, kind, recordedAt, erased }) => ({
        leaf_index: leafIndex,
        record_id: recordId,
        kind,
        recorded_at: recordedAt,
        erased,
      })),
      ...(page.next !== undefined && { next: page.next }),
    };
  });
}

function readQuery(query: Query): AskedSearch {
  refuseOthers(query, searchParameters);
  // One that is given twice comes as a list.
  if (Object.values(query).some((value) => typeof value !== "string"))
    throw new ServiceError("invalid_request", "a parameter is given twice");
  const asked = parseSearch(query as Readonly<Record<string, string>>);
  if ("limit" in asked) return asked;
  throw new ServiceError(
    "invalid_request",
    asked.map(({ parameter, message }) => `${parameter} ${message}`).join("; "),
  );
}
