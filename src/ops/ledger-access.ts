/** Who may read the logs: whom a request shows to be asking, and which logs that is enough for. */
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { securityFields } from "../base/security-events.ts";
import type { Timers } from "../base/timers.ts";
import type { PublishedLogs } from "../ledger/ports/ledger.ts";
import type { LogFields, Logger } from "../telemetry/logger.ts";
import type { ViewerLimits } from "./viewer-limits.ts";

/** Somebody who may read. */
export interface Viewer {
  /** Whose log it may see; undefined where it may see every log. */
  readonly tenantId: TenantId | undefined;
  /** Whether credentials say so, rather than the place that the request came from. */
  readonly presented: boolean;
  /** With which a search for the content of requests is refused; undefined where it is allowed. */
  readonly contentRefusal: ServiceError | undefined;
}

/** The logs, and who reads them. */
export interface ServedLogs {
  readonly logs: PublishedLogs;
  /**
   * Says who asks. Rejects with the `ServiceError` that the request is to be refused with: `missing_token`,
   * `invalid_token`, `expired_token`, `proof_of_possession_failed`, `missing_scope`, each with a challenge, or
   * `tenant_mismatch`.
   */
  readonly viewerOf: (request: IncomingMessage) => Promise<Viewer>;
}

const decorator = "viewer";

/**
 * Lets nobody through to the routes of the scope but those who may see what the path names. The log of somebody else is
 * as little there as one that never was.
 */
export function admitViewers(
  scope: FastifyInstance,
  { logs, viewerOf }: ServedLogs,
  viewerLimits: ViewerLimits,
  noteRefusal: () => void,
): void {
  scope.decorateRequest(decorator);
  scope.addHook("onRequest", async (request, reply) => {
    const viewer = await viewerOf(request.raw).catch((error: unknown) => {
      if (!(error instanceof ServiceError)) throw error;
      if (error.code === "unauthenticated") noteRefusal();
      throw error;
    });
    request.setDecorator(decorator, viewer);
    const { log } = request.params as { readonly log?: string };
    if (viewer.tenantId === undefined || log === undefined) return;
    const tenantId = await viewerLimits.read(viewer, reply, () => logs.tenantOf(log));
    if (tenantId !== viewer.tenantId) throw new ServiceError("no_route", "there is no such log");
  });
}

/** Who asks, in a scope of `admitViewers`. */
export function viewerOfRequest(request: FastifyRequest): Viewer {
  return request.getDecorator<Viewer>(decorator);
}

const refusalWindowMs = 60_000;

/**
 * Returns what is to be called at every refusal of a kind, such as of credentials. The first is logged at once; those
 * that follow within a minute, as one line at its end that counts them: somebody who tries secrets, or asks for too much,
 * is seen, and cannot fill the log.
 */
export function refusalLog(
  logger: Pick<Logger, "warn">,
  timers: Timers,
  what = "credentials refused on the operator listener",
  fields: LogFields = securityFields("operator_refused"),
): () => void {
  let counted: number | undefined;
  const endWindow = () => {
    if (counted !== undefined && counted > 0)
      logger.warn({ ...fields, refused: counted, window_ms: refusalWindowMs }, what);
    counted = undefined;
  };
  return () => {
    if (counted !== undefined) {
      counted += 1;
      return;
    }
    counted = 0;
    logger.warn({ ...fields, refused: 1 }, what);
    timers.after(refusalWindowMs, endWindow);
  };
}
