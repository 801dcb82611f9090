/** The logs over HTTP: C2SP tlog-tiles, a list of the logs, consistency proofs, and search. */
import type { FastifyInstance, FastifyReply } from "fastify";
import { ServiceError } from "../base/errors.ts";
import type { PublishedLogs } from "../ledger/ports/ledger.ts";
import { admitViewers, type ServedLogs, type Viewer, viewerOfRequest } from "./ledger-access.ts";
import { addRecordRoutes } from "./record-routes.ts";
import { addSearchRoute, type Query, refuseOthers, type SearchRouteOptions } from "./search-route.ts";
import { createViewerLimits, type ViewerLimits } from "./viewer-limits.ts";

/** Tiles never change and may be cached; answers that depend on the viewer are private. */
const immutable = "max-age=31536000, immutable";

interface OfLog {
  Params: { log: string };
}

/**
 * Adds `GET /ledger` (names, origins, sizes, verifier keys) and, below `/ledger/<name>/`: `checkpoint`, `tile/<L>/<N>`
 * and `tile/entries/<N>` with or without `.p/<W>`, `consistency?from=<size>&to=<size>`, `search`, `record/<id>` and
 * `explanation/<id>`. Anything beyond the log's size is a 404. Every request passes `admitViewers`, which calls `noteRefusal`.
 */
export function addLedgerRoutes(
  server: FastifyInstance,
  options: SearchRouteOptions,
  served: ServedLogs,
  noteRefusal: () => void,
): void {
  const viewerLimits = createViewerLimits();
  server.register(async (scope) => {
    admitViewers(scope, served, viewerLimits, noteRefusal);
    addListRoute(scope, options.serviceName, served.logs, viewerLimits);
    addLogRoutes(scope, served.logs, viewerLimits);
    addSearchRoute(scope, options, served.logs, viewerLimits);
    addRecordRoutes(scope, options, served, viewerLimits);
  });
}

function addListRoute(
  scope: FastifyInstance,
  serviceName: string,
  logs: PublishedLogs,
  viewerLimits: ViewerLimits,
): void {
  scope.get("/ledger", async (request, reply) => {
    const viewer = viewerOfRequest(request);
    const published = (await viewerLimits.read(viewer, reply, () => logs.published())).filter(({ tenantId }) =>
      maySee(viewer, tenantId),
    );
    return {
      service: serviceName,
      logs: published.map(({ name, tenantId, origin, size, verifierKeys }) => ({
        name,
        tenant_id: tenantId,
        origin,
        size,
        verifier_keys: verifierKeys,
      })),
    };
  });
}

function maySee(viewer: Viewer, tenantId: string): boolean {
  return viewer.tenantId === undefined || viewer.tenantId === tenantId;
}

function addLogRoutes(scope: FastifyInstance, logs: PublishedLogs, viewerLimits: ViewerLimits): void {
  scope.get<OfLog>("/ledger/:log/checkpoint", async (request, reply) => {
    const { log } = request.params;
    const checkpoint = await viewerLimits.read(viewerOfRequest(request), reply, () => logs.checkpoint(log));
    return answer(reply, "text/plain; charset=utf-8", checkpoint);
  });
  scope.get<{ Params: { log: string; "*": string } }>("/ledger/:log/tile/*", async (request, reply) => {
    const { params } = request;
    const viewer = viewerOfRequest(request);
    const tile = await viewerLimits.read(viewer, reply, () => logs.tile(params.log, params["*"]));
    const audience = viewer.presented ? "private" : "public";
    if (tile !== undefined) reply.header("cache-control", `${audience}, ${immutable}`);
    return answer(reply, "application/octet-stream", tile && Buffer.from(tile));
  });
  scope.get<OfLog & { Querystring: Query }>("/ledger/:log/consistency", async (request, reply) => {
    const { params, query } = request;
    refuseOthers(query, ["from", "to"]);
    const [from, to] = [sizeOf(query.from), sizeOf(query.to)];
    if (from === undefined || to === undefined)
      throw new ServiceError("invalid_request", "from and to must be sizes of the log");
    const viewer = viewerOfRequest(request);
    const proof = await viewerLimits.read(viewer, reply, () => logs.consistencyProof(params.log, from, to));
    const lines = proof?.map((hash) => `${Buffer.from(hash).toString("base64")}\n`).join("");
    return answer(reply, "text/plain; charset=utf-8", lines);
  });
}

function answer(reply: FastifyReply, type: string, content: string | Buffer | undefined): FastifyReply {
  if (content === undefined) throw new ServiceError("no_route", "the log has no such resource");
  return reply.header("content-type", type).send(content);
}

function sizeOf(text: unknown): number | undefined {
  return typeof text === "string" && /^(0|[1-9][0-9]{0,14})$/.test(text) ? Number(text) : undefined;
}
