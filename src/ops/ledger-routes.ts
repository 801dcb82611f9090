/** The logs over HTTP: C2SP tlog-tiles, a list of the logs, consistency proofs, search, and records for the console. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ServiceError } from "../base/errors.ts";
import { parseRecordId, type RecordId } from "../base/ids.ts";
import { receiptMembers } from "../ledger/ports/ledger.ts";
import type { SearchQuery } from "../ledger/ports/search.ts";
import { reportHtml, reportStyleSource } from "../ledger/report/html.ts";
import { countsOf, type Report, readReport, reportCsv, reportTemplates, unitsOf } from "../ledger/report/report.ts";
import { ambiguousId, isContentParameter, openParameters, pageMembers } from "../ledger/search/search-query.ts";
import {
  admitViewers,
  contentOf,
  createViewerLimits,
  type LedgerRoutesOptions,
  type LedgerScope,
  maySee,
  noteSearch,
  type ServedLogs,
  tenantOfRequest,
  viewerOfRequest,
} from "./ledger-access.ts";
import { type Members, parseCriteria, type Query, readMembers, readQuery, refuseOthers } from "./log-requests.ts";
import { addPolicyRoutes } from "./policy-routes.ts";

/** Tiles never change and may be cached; answers that depend on the viewer are private. */
const immutable = "max-age=31536000, immutable";

interface OfLog {
  Params: { log: string };
}

/**
 * Adds `GET /ledger` (names, origins, sizes, verifier keys) and, below `/ledger/<name>/`: `checkpoint`, `tile/<L>/<N>`
 * and `tile/entries/<N>` with or without `.p/<W>`, `consistency?from=<size>&to=<size>`, `search`, `record/<id>`,
 * `explanation/<id>`, `report`, `policies`, `policies/<revision>` and `playground`. Anything beyond the log's size is a
 * 404. Every request passes `admitViewers`, which calls `noteRefusal`.
 */
export function addLedgerRoutes(
  server: FastifyInstance,
  options: LedgerRoutesOptions,
  served: ServedLogs,
  noteRefusal: () => void,
): void {
  const { serviceName, clock, logger } = options;
  const viewerLimits = createViewerLimits();
  server.register(async (scope) => {
    const ledger = { ...served, serviceName, clock, logger, scope, viewerLimits };
    admitViewers(ledger, noteRefusal);
    addListRoute(ledger);
    addLogRoutes(ledger);
    addSearchRoute(ledger);
    addRecordRoutes(ledger);
    addReportRoute(ledger);
    addPolicyRoutes(ledger);
  });
}

function addListRoute({ scope, serviceName, logs, viewerLimits }: LedgerScope): void {
  scope.get("/ledger", async (request, reply) => {
    const viewer = viewerOfRequest(request);
    const published = (await viewerLimits.read(request, reply, () => logs.published())).filter(({ tenantId }) =>
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

function addLogRoutes({ scope, logs, viewerLimits }: LedgerScope): void {
  scope.get<OfLog>("/ledger/:log/checkpoint", async (request, reply) => {
    const { log } = request.params;
    const checkpoint = await viewerLimits.read(request, reply, () => logs.checkpoint(log));
    return answer(reply, "text/plain; charset=utf-8", checkpoint);
  });
  scope.get<{ Params: { log: string; "*": string } }>("/ledger/:log/tile/*", async (request, reply) => {
    const { params } = request;
    const viewer = viewerOfRequest(request);
    const tile = await viewerLimits.read(request, reply, () => logs.tile(params.log, params["*"]));
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
    const proof = await viewerLimits.read(request, reply, () => logs.consistencyProof(params.log, from, to));
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

// Search.

/** Bytes of a body: enough for every parameter at its longest. */
const maxBodyBytes = 64 * 1024;

/**
 * Adds `GET` and `POST /ledger/<name>/search`: positions of the matching records, in the order of the log or the newest
 * first; `next`, if present, is the `after` of the next page. Searches for the content of requests, summaries and counts
 * need the body of a POST, a JSON object, and an operator or the scope that allows them. Each search is logged:
 * who searched which log, and by which parameters, without their values.
 */
function addSearchRoute({ scope, serviceName, clock, logger, logs, viewerLimits }: LedgerScope): void {
  const answer = async (request: FastifyRequest<OfLog>, reply: FastifyReply, given: Members) => {
    const { log } = request.params;
    if (Object.keys(given).some(isContentParameter)) contentOf(request);
    const criteria = parseCriteria(given, clock.now());
    const page = await viewerLimits.search(request, reply, () => {
      noteSearch(logger, request, Object.keys(given));
      return logs.search({ ...criteria, tenantId: tenantOfRequest(request) });
    });
    if (page.ambiguous !== undefined) throw ambiguousId(page.ambiguous);
    return { service: serviceName, log, ...pageMembers(page) };
  };
  scope.addContentTypeParser("application/json", { parseAs: "buffer", bodyLimit: maxBodyBytes }, (_, body, done) =>
    done(null, body),
  );
  scope.get<OfLog & { Querystring: Query }>("/ledger/:log/search", (request, reply) =>
    answer(request, reply, readQuery(request.query, openParameters)),
  );
  scope.post<OfLog & { Querystring: Query }>("/ledger/:log/search", (request, reply) => {
    refuseOthers(request.query, []);
    return answer(request, reply, readMembers(request));
  });
}

// Reports: the files of `ledger report`.

/** Formats of the answer: the report as a file, or its counts as JSON. */
const formats = {
  html: { type: "text/html; charset=utf-8", text: reportHtml },
  csv: { type: "text/csv; charset=utf-8", text: reportCsv },
  json: { type: "application/json; charset=utf-8", text: (report: Report) => JSON.stringify(countsIn(report)) },
} as const;

const reportParameters = ["template", "format", "from", "to", "last"] as const;

/**
 * Adds `GET /ledger/<name>/report`: the report of a template over a period, for viewers who may search by content. It is
 * read page by page, each in the viewer's turn.
 */
function addReportRoute({ scope, clock, logger, logs, viewerLimits }: LedgerScope): void {
  scope.get<{ Params: { log: string }; Querystring: Query }>("/ledger/:log/report", async (request, reply) => {
    const { log } = request.params;
    const { tenantId } = contentOf(request);
    const { template: named, format: asked = "html", ...period } = readQuery(request.query, reportParameters);
    const template = reportTemplates.find((each) => each === named);
    const format = Object.entries(formats).find(([name]) => name === asked)?.[1];
    const { fromMs, toMs = clock.now() } = parseCriteria(period, clock.now());
    if (template === undefined) throw invalid(`template must be one of ${reportTemplates.join(", ")}`);
    if (format === undefined) throw invalid(`format must be one of ${Object.keys(formats).join(", ")}`);
    if (fromMs === undefined || fromMs >= toMs) throw invalid("last or from must be given, and to must be after it");
    const checkpoint = await viewerLimits.read(request, reply, () => {
      noteSearch(logger, request, Object.keys(request.query));
      return logs.checkpoint(log);
    });
    if (checkpoint === undefined) throw new ServiceError("no_route", "there is no such log");
    const search = (query: SearchQuery) => viewerLimits.search(request, reply, () => logs.search(query));
    const text = await viewerLimits.report(request, reply, async () =>
      format.text(await readReport({ search }, { template, tenantId, fromMs, toMs, checkpoint })),
    );
    return reply
      .header("content-type", format.type)
      .header("content-security-policy", `default-src 'none'; style-src ${reportStyleSource}; sandbox`)
      .header("x-content-type-options", "nosniff")
      .send(text);
  });
}

function countsIn(report: Report) {
  const { template, fromMs, toMs, rows, evidence, revisions } = report;
  return {
    template,
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    records: rows.length,
    evidence: Object.fromEntries(evidence),
    by_time: unitsOf(report).counts,
    values: countsOf(report),
    revisions,
  };
}

function invalid(message: string): ServiceError {
  return new ServiceError("invalid_request", message);
}

// A record with its receipt, and why a decision was made. For the console.

interface OfRecord {
  Params: { log: string; record: string };
}

/**
 * Adds `GET /ledger/<name>/record/<id>` and `GET /ledger/<name>/explanation/<id>`. The first answers a full receipt under
 * the newest checkpoint, from which the reader takes the record once it has verified it. It is for viewers who may search
 * by content. The second is for operators, because it names policies of the platform.
 */
function addRecordRoutes({ scope, serviceName, logger, logs, explain, viewerLimits }: LedgerScope): void {
  scope.get<OfRecord>("/ledger/:log/record/:record", async (request, reply) => {
    const { log, record } = request.params;
    contentOf(request);
    const receipt = await viewerLimits.read(request, reply, () => {
      noteSearch(logger, request, ["record_id"]);
      return logs.receipt(log, recordIdOf(record));
    });
    if (receipt === "unknown") throw new ServiceError("no_route", "the log has no such record");
    const answer = { service: serviceName, log, record_id: record };
    return receipt === "erased"
      ? { ...answer, erased: true }
      : { ...answer, erased: false, receipt: receiptMembers(receipt) };
  });
  scope.get<OfRecord>("/ledger/:log/explanation/:record", async (request, reply) => {
    const { log, record } = request.params;
    const { tenantId, isOperator } = contentOf(request);
    if (!isOperator) throw new ServiceError("no_route", "explanations are for operators");
    const found = await viewerLimits.search(request, reply, () => {
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
