/** Access to the logs: identifies the viewer of a request, and the logs that it may see. */
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { SignIn } from "../auth/sign-in.ts";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { createFairSemaphore, type FairLimits } from "../base/fair-queue.ts";
import type { PrincipalId, RecordId, TenantId } from "../base/ids.ts";
import { rememberedBy } from "../base/remembered.ts";
import { securityFields } from "../base/security-events.ts";
import type { Timers } from "../base/timers.ts";
import type { PublishedLogs } from "../ledger/ports/ledger.ts";
import type { LogFields, Logger } from "../telemetry/logger.ts";

export interface Viewer {
  /** Tenants whose logs it may see; undefined for every log. */
  readonly tenantIds: readonly TenantId[] | undefined;
  /**
   * Name of an operator, or of an auditor who signed in; or the principal of a tenant's token. All undefined without
   * credentials.
   */
  readonly operator?: string;
  readonly principalId?: PrincipalId;
  /** Whether it showed credentials, rather than being trusted for its address. */
  readonly presented: boolean;
  /** Refusal of a search by request content; undefined if it is allowed. */
  readonly contentRefusal: ServiceError | undefined;
}

export interface ServedLogs {
  readonly logs: PublishedLogs;
  /**
   * Identifies the viewer. Rejects with the refusal: `missing_token`, `invalid_token`, `expired_token`,
   * `proof_of_possession_failed`, `missing_scope`, each with a challenge, or `tenant_mismatch`.
   */
  readonly viewerOf: (request: IncomingMessage) => Promise<Viewer>;
  /**
   * Explains a recorded decision under the policies in force, as members of an answer. Rejects with `no_route` if there
   * is no such decision.
   */
  readonly explain: (tenantId: TenantId, recordId: RecordId) => Promise<object>;
  readonly policies: ServedPolicies;
  /** Sign-in to the console; absent if it takes tokens only. */
  readonly signIn?: SignIn | undefined;
  /** The built document of the console, which reads the logs. */
  readonly consolePage: URL;
}

/** The policies of a log's tenant, as members of answers. Reject with `no_route` for what there is not. */
export interface ServedPolicies {
  /**
   * Policies in force for the tenant, and the revisions that decided the newest part of the log.
   * @param isWhole whether with those of the platform, which are not a tenant's
   */
  overview(log: string, tenantId: TenantId, isWhole: boolean): Promise<object>;
  /** Texts of a revision that was in force. */
  texts(tenantId: TenantId, revision: string, isWhole: boolean): Promise<object>;
  /** The files of the policy directory. */
  files(): Promise<object>;
  /** Tries a draft of them; nothing of it stays. Rejects with `invalid_request` if it takes too much. */
  tryDraft(tenantId: TenantId, draft: GivenDraft, signal: AbortSignal): Promise<object>;
}

export interface GivenDraft {
  /** Texts by path. */
  readonly files: Readonly<Record<string, string>>;
  readonly questions: string;
  /** Also asks the decisions recorded from this time on, in milliseconds since the Unix epoch. */
  readonly fromMs: number | undefined;
}

export interface LedgerRoutesOptions {
  readonly serviceName: string;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "info">;
}

/** What the routes of logs need: the scope to add them to, the data to serve, and the concurrency limits. */
export interface LedgerScope extends LedgerRoutesOptions, ServedLogs {
  readonly scope: FastifyInstance;
  readonly viewerLimits: ViewerLimits;
}

const decorators = { viewer: "viewer", tenantId: "logTenantId" } as const;

/**
 * Admits only viewers that may see the log in the path, which exists. Another tenant's log looks like one that does not
 * exist.
 */
export function admitViewers({ scope, logs, viewerOf, viewerLimits }: LedgerScope, noteRefusal: () => void): void {
  for (const name of Object.values(decorators)) scope.decorateRequest(name);
  scope.addHook("onRequest", async (request, reply) => {
    const viewer = await viewerOf(request.raw).catch((error: unknown) => {
      if (!(error instanceof ServiceError)) throw error;
      if (error.code === "unauthenticated") noteRefusal();
      throw error;
    });
    request.setDecorator(decorators.viewer, viewer);
    const { log } = request.params as { readonly log?: string };
    if (log === undefined) return;
    const tenantId = await viewerLimits.read(request, reply, () => logs.tenantOf(log));
    if (tenantId === undefined || !maySee(viewer, tenantId)) throw new ServiceError("no_route", "there is no such log");
    request.setDecorator(decorators.tenantId, tenantId);
  });
}

export function maySee({ tenantIds }: Viewer, tenantId: TenantId): boolean {
  return tenantIds === undefined || tenantIds.includes(tenantId);
}

/** The viewer of a request, in a scope of `admitViewers`. */
export function viewerOfRequest(request: FastifyRequest): Viewer {
  return request.getDecorator<Viewer>(decorators.viewer);
}

/** Tenant of the log in the path of a request. */
export function tenantOfRequest(request: FastifyRequest): TenantId {
  return request.getDecorator<TenantId>(decorators.tenantId);
}

/**
 * The log in a request's path, for routes that show the content of its records. Throws the refusal if the viewer may
 * not search by content.
 */
export function contentOf(request: FastifyRequest): { readonly tenantId: TenantId; readonly isOperator: boolean } {
  const { contentRefusal, tenantIds } = viewerOfRequest(request);
  if (contentRefusal !== undefined) throw contentRefusal;
  return { tenantId: tenantOfRequest(request), isOperator: tenantIds === undefined };
}

/** Logs a search: its viewer, its log, and the names of its parameters. */
export function noteSearch(logger: Pick<Logger, "info">, request: FastifyRequest, fields: readonly string[]): void {
  const { operator, tenantIds, principalId } = viewerOfRequest(request);
  const { log } = request.params as { readonly log?: string };
  const who = { operator, tenant_id: tenantIds?.join(), principal_id: principalId, remote_address: request.ip };
  logger.info({ ...securityFields("ledger_searched"), ...who, log, fields }, "a log is searched");
}

const refusalWindowMs = 60_000;

/**
 * Returns a function to call at every refusal of a kind, such as of credentials. Logs the first at once, and those of
 * the following minute as one line with their number, so that an attacker is visible and cannot fill the log.
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

// Concurrency limits, so that one viewer delays neither others nor the service.

export type ViewerLimits = ReturnType<typeof createViewerLimits>;

export function createViewerLimits() {
  const tryInTurn = turnsOf({ maximum: 1, maximumWaitingEach: 4, maximumWaiting: 16 });
  const trying = new Set<string | undefined>();
  return {
    /** Reads a log. */
    read: turnsOf({ maximum: 8, maximumWaitingEach: 64, maximumWaiting: 512 }),
    /** Runs a search; each may take a tenth of a second of a thread or a connection. */
    search: turnsOf({ maximum: 2, maximumWaitingEach: 16, maximumWaiting: 64 }),
    /** Makes a report: each holds its records in memory, and takes the turns of many searches. */
    report: turnsOf({ maximum: 2, maximumWaitingEach: 8, maximumWaiting: 32 }),
    /**
     * Tries a draft of policies, which may use a core for seconds: one at a time, and at most one of the same
     * credentials. The signal is aborted when the viewer disconnects. Rejects a second draft with `rate_limited`.
     */
    async tryOut<T>(
      request: FastifyRequest,
      reply: FastifyReply,
      work: (signal: AbortSignal) => Promise<T>,
    ): Promise<T> {
      const { operator, principalId } = viewerOfRequest(request);
      const credential = operator ?? principalId;
      if (trying.has(credential))
        throw new ServiceError("rate_limited", "a draft of the same credentials is tried already", {
          retryAfterSeconds: 1,
        });
      trying.add(credential);
      try {
        return await tryInTurn(request, reply, () => work(leavingOf(reply)));
      } finally {
        trying.delete(credential);
      }
    },
  };
}

/** Does work in the turn of the request's viewer. Rejects with `rate_limited` or `overloaded` if too much is waiting. */
function turnsOf(limits: FairLimits) {
  const slots = createFairSemaphore(limits);
  return <T>(request: FastifyRequest, reply: FastifyReply, work: () => Promise<T>): Promise<T> =>
    slots.run(partyOf(request), work, leavingOf(reply));
}

/** Viewers of every log share one party. */
function partyOf(request: FastifyRequest): string {
  const { tenantIds } = viewerOfRequest(request);
  return tenantIds === undefined ? "operator" : `tenant ${tenantIds.join()}`;
}

/** Aborts when the viewer disconnects. An answer has one signal, however many turns it takes. */
const leavingOf = rememberedBy(({ raw }: FastifyReply): AbortSignal => {
  const controller = new AbortController();
  const leave = () => controller.abort(new ServiceError("canceled", "the caller went away"));
  if (raw.destroyed) leave();
  else raw.once("close", leave);
  return controller.signal;
});
