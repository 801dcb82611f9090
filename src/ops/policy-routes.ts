/** The policies of a log's tenant over HTTP, and a playground for drafts of them. For the console. */
import { posix } from "node:path";
import type { FastifyRequest } from "fastify";
import { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { contentOf, type GivenDraft, type LedgerScope, noteSearch } from "./ledger-access.ts";
import { parseCriteria, readObject } from "./log-requests.ts";

interface OfLog {
  Params: { log: string };
}

/** Bytes of a draft: all files of the directory with their tests. */
const maxDraftBytes = 1024 * 1024;
const maxFiles = 1_000;
const maxPathLength = 256;

/**
 * Adds `GET /ledger/<name>/policies`, `GET /ledger/<name>/policies/<revision>`, and `GET` and `POST
 * /ledger/<name>/playground`. All need the right to search by content. Tenants see the policies of their own sets; the
 * platform's and the playground are for operators. A draft is tried in a thread and kept nowhere.
 */
export function addPolicyRoutes({ scope, serviceName, clock, logger, policies, viewerLimits }: LedgerScope): void {
  const answer = async (
    request: FastifyRequest<OfLog>,
    work: (tenantId: TenantId, isOperator: boolean) => Promise<object>,
  ) => {
    const { tenantId, isOperator } = contentOf(request);
    return { service: serviceName, log: request.params.log, ...(await work(tenantId, isOperator)) };
  };
  scope.get<OfLog>("/ledger/:log/policies", (request, reply) =>
    answer(request, (tenantId, isOperator) =>
      viewerLimits.search(request, reply, () => policies.overview(request.params.log, tenantId, isOperator)),
    ),
  );
  scope.get<{ Params: { log: string; revision: string } }>("/ledger/:log/policies/:revision", (request, reply) =>
    answer(request, (tenantId, isOperator) =>
      viewerLimits.read(request, reply, () => policies.texts(tenantId, request.params.revision, isOperator)),
    ),
  );
  scope.get<OfLog>("/ledger/:log/playground", (request, reply) =>
    answer(request, (_, isOperator) => {
      requireOperator(isOperator);
      return viewerLimits.read(request, reply, () => policies.files());
    }),
  );
  scope.post<OfLog>("/ledger/:log/playground", { bodyLimit: maxDraftBytes }, (request, reply) =>
    answer(request, (tenantId, isOperator) => {
      requireOperator(isOperator);
      const draft = readDraft(request, clock.now());
      return viewerLimits.tryOut(request, reply, (signal) => {
        if (draft.fromMs !== undefined) noteSearch(logger, request, ["from"]);
        return policies.tryDraft(tenantId, draft, signal);
      });
    }),
  );
}

function requireOperator(isOperator: boolean): void {
  if (!isOperator) throw new ServiceError("no_route", "the playground is for operators");
}

/** Whether the path is short and normalized, so that different paths name different files. */
function isPath(path: string): boolean {
  return path.length <= maxPathLength && posix.join("/", path) === `/${path}`;
}

/** Throws `invalid_request`. */
function readDraft(request: FastifyRequest, nowMs: number): GivenDraft {
  const { files, questions = "", since } = readObject(request, ["files", "questions", "since"]);
  const refusal = new ServiceError("invalid_request", "files must be texts by path, and questions and since texts");
  if (typeof files !== "object" || files === null || Array.isArray(files)) throw refusal;
  const texts = Object.entries(files);
  if (texts.length > maxFiles) throw new ServiceError("invalid_request", `a draft has at most ${maxFiles} files`);
  if (texts.some(([path, text]) => typeof text !== "string" || !isPath(path))) throw refusal;
  if (typeof questions !== "string" || (since !== undefined && typeof since !== "string")) throw refusal;
  const fromMs = since === undefined ? undefined : parseCriteria({ last: since }, nowMs).fromMs;
  return { files: Object.fromEntries(texts), questions, fromMs };
}
