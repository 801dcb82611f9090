/** Records of the logs over HTTP: a record with its receipt, and why a decision was made. For the console. */
import type { FastifyInstance } from "fastify";
import { ServiceError } from "../base/errors.ts";
import { parseRecordId, type RecordId } from "../base/ids.ts";
import type { Receipt } from "../ledger/ports/ledger.ts";
import { noteSearch, type ServedLogs, viewerOfRequest } from "./ledger-access.ts";
import type { SearchRouteOptions } from "./search-route.ts";
import type { ViewerLimits } from "./viewer-limits.ts";

interface OfRecord {
  Params: { log: string; record: string };
}

/**
 * Adds `GET /ledger/<name>/record/<id>` and `GET /ledger/<name>/explanation/<id>`. The first answers a full receipt under
 * the newest checkpoint, from which the reader takes the record once it has verified it. It is for viewers who may search
 * by content. The second is for operators, because it names policies of the platform.
 */
export function addRecordRoutes(
  scope: FastifyInstance,
  { serviceName, logger }: SearchRouteOptions,
  { logs, explain }: ServedLogs,
  viewerLimits: ViewerLimits,
): void {
  scope.get<OfRecord>("/ledger/:log/record/:record", async (request, reply) => {
    const { log, record } = request.params;
    const viewer = viewerOfRequest(request);
    if (viewer.contentRefusal !== undefined) throw viewer.contentRefusal;
    const receipt = await viewerLimits.read(viewer, reply, () => {
      noteSearch(logger, request, ["record_id"]);
      return logs.receipt(log, recordIdOf(record));
    });
    if (receipt === "unknown") throw new ServiceError("no_route", "the log has no such record");
    const answer = { service: serviceName, log, record_id: record };
    return receipt === "erased"
      ? { ...answer, erased: true }
      : { ...answer, erased: false, receipt: membersOf(receipt) };
  });
  scope.get<OfRecord>("/ledger/:log/explanation/:record", async (request, reply) => {
    const { log, record } = request.params;
    const viewer = viewerOfRequest(request);
    if (viewer.contentRefusal !== undefined) throw viewer.contentRefusal;
    if (viewer.tenantId !== undefined) throw new ServiceError("no_route", "explanations are for operators");
    const tenantId = await viewerLimits.read(viewer, reply, () => logs.tenantOf(log));
    if (tenantId === undefined) throw new ServiceError("no_route", "there is no such log");
    const found = await viewerLimits.search(viewer, reply, () => {
      noteSearch(logger, request, ["record_id"]);
      return explain(tenantId, recordIdOf(record));
    });
    return { service: serviceName, log, record_id: record, ...found };
  });
}

function recordIdOf(text: string): RecordId {
  const recordId = parseRecordId(text);
  if (recordId === undefined) throw new ServiceError("no_route", "the log has no such record");
  return recordId;
}

function membersOf({ recordId, logOrigin, leafIndex, treeSize, leafHash, proof, leaf, opening, record }: Receipt) {
  return {
    ...{ record_id: recordId, log_origin: logOrigin, leaf_index: leafIndex, tree_size: treeSize, leaf_hash: leafHash },
    ...{ proof, leaf, opening, record },
  };
}
