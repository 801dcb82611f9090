/** The callers' side: the public methods over policy, ledger and authenticator, behind the public listener. */
import type { Clock } from "../base/clock.ts";
import type { TenantId } from "../base/ids.ts";
import { securityFields } from "../base/security-events.ts";
import { parseQuotaFile } from "../config/data-files.ts";
import { createArtifactHasher } from "../domain/artifact-hasher.ts";
import type { DecisionDependencies } from "../domain/decision.ts";
import type { PortionCounters } from "../domain/ports.ts";
import { Quotas } from "../domain/quotas.ts";
import { createScopeTable } from "../domain/routes.ts";
import type { AdmissionLimits } from "../http/admission.ts";
import type { ServiceLedger } from "../ledger/append/ledger.ts";
import type { PolicyInForce } from "../policy/engine/policy-in-force.ts";
import { keyReferenceAliases } from "../policy/guidance/key-references.ts";
import type { PolicyQuery } from "../policy/model/decision.ts";
import { publishedPages } from "../portal/pages.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { type ServedMethod, unaryMethods } from "../transport/calls/methods.ts";
import { keepWithinQuotas, type QuotaUse, takeForItems } from "../transport/gate/quota.ts";
import type { TakeItems } from "../transport/rpc/bulk.ts";
import { createServer } from "../transport/server.ts";
import { createHealth, type ReadinessSource } from "../transport/unauthenticated/health.ts";
import type { Callers } from "./callers.ts";
import { followTls, type Machine } from "./followed-files.ts";
import { furtherApis, healthNeedsOf, scopesByRpc } from "./further-apis.ts";
import { publishedOptions, type ServeConfig, sdkApi, serverOptions, unauthenticatedServices } from "./gateway.ts";
import { livePlatform } from "./live-policy.ts";

/** Parts of the public side. The caller closes them. */
interface PublicParts {
  readonly policy: PolicyInForce;
  readonly ledger: ServiceLedger;
  readonly callers: Callers;
  /** Source of the answers to callers' health checks. */
  readonly readiness: ReadinessSource;
  /** Absent if tenants have no quotas. */
  readonly quotas?: Quotas | undefined;
  readonly admission?: AdmissionLimits | undefined;
  readonly explorerToken?: (() => Promise<string>) | undefined;
}

export async function createPublicSide(
  config: ServeConfig,
  machine: Machine,
  { policy, ledger, callers, readiness, quotas, admission, explorerToken }: PublicParts,
) {
  const { clock, timers, random, logger, metrics } = machine;
  const { authenticator, sessionApi } = callers;
  const hasher = createArtifactHasher({
    onWaited: (waitedMs) => metrics.queueWaited("artifact", waitedMs),
  });
  metrics.watchQueue("artifact", () => hasher.waiting);
  const scopes = createScopeTable(config.defaultRequiredScopes, config.routeScopes);
  const live = livePlatform(config, authenticator, policy, ledger);
  const deployment = {
    supportedOperations: config.supportedOperations,
    supportedProfiles: config.supportedProfiles,
    scopes,
    showReasons: config.reasons,
    decisionMaxAgeSeconds: config.decisionMaxAgeSeconds,
    isKeyReferenceAlias: keyReferenceAliases(config.keyReferences),
  };
  const deciding = { engine: policy, observe: observeDecisions(metrics, logger, clock) };
  const observeEvidence = (tenantId: TenantId, isMatched: boolean) => {
    if (isMatched) metrics.evidenceArrived(tenantId);
  };
  const dependencies = { deployment, live, ledger, clock, random, hasher, observeEvidence, ...deciding };
  const takeItems: TakeItems = async (...items) => (quotas === undefined ? () => {} : takeForItems(quotas, ...items));
  const apis = [
    sdkApi(config.serviceName, dependencies),
    ...furtherApis(config, { ...dependencies, takeItems }, authenticator),
    ...(sessionApi ? [sessionApi] : []),
  ];
  const methods = apis.flatMap(({ methods }) => methods);
  const health = createHealth({ readiness, services: healthNeedsOf(apis), clock, timers });
  const rpcMethods = apis.flatMap(({ rpcServices = [] }) => rpcServices.flatMap(unaryMethods));
  const useOf = quotaUses([...methods, ...rpcMethods]);
  const chainOptions: Parameters<typeof serverOptions>[2] = {
    verifier: authenticator,
    requiredScopes: scopesByRpc(scopes, apis),
    withoutCredentials: new Map(apis.flatMap(({ gates = [] }) => [...gates])),
    quotas: quotas && keepWithinQuotas(quotas, useOf),
  };
  let server: Awaited<ReturnType<typeof createServer>> | undefined;
  const tls = await followTls("tls", machine, (next) => server?.replaceTls(next));
  const first = tls?.current;
  server = await createServer({
    ...serverOptions(config, methods, chainOptions, machine, first, apis),
    ...(admission !== undefined && { admissionLimits: admission }),
    pages: [
      ...publishedPages({
        ...publishedOptions(config, scopes, live),
        explorerToken,
        further: apis.flatMap(({ document }) => document ?? []),
      }),
      ...apis.flatMap(({ pages }) => pages),
    ],
    unauthenticatedServices: unauthenticatedServices(health, config, apis),
  });
  if (tls !== undefined && tls.current !== first) server.replaceTls(tls.current);
  const { close } = server;
  return {
    server,
    /** From now on, health checks report that it is not serving. */
    announceStop: () => health.stop(),
    /** Stops accepting, and waits for calls in flight. Resolves with whether all of them finished. */
    async close(graceMs: number): Promise<boolean> {
      const clean = await close(graceMs);
      hasher.close();
      return clean;
    },
  };
}

/** Counts each recorded decision, raises its alerts, and reports callers, and subjects of theirs, with many denials. */
function observeDecisions(
  metrics: Metrics,
  logger: Logger,
  clock: Clock,
): NonNullable<DecisionDependencies["observe"]> {
  const denied = denialCounter(clock, ({ caller: { tenantId, principalId }, onBehalfOf }) => {
    // The subject is content of the request, which no line has.
    const kind = onBehalfOf === undefined ? "principal" : "subject";
    metrics.denialsSpiked(tenantId, kind);
    const fields = { ...securityFields("denials_spiked"), tenant_id: tenantId, principal_id: principalId, kind };
    logger.warn({ ...fields, denials: spikeDenials, window_ms: spikeWindowMs }, `a ${kind} is denied many decisions`);
  });
  return ({ route, query, decision, decisionId, isSearch, span }) => {
    const { tenantId } = query.caller;
    // An AuthZEN question permits no act, so no event need follow it.
    const expectsEvidence = route !== "evaluation" && decision.guidance.evidence_expected.length > 0;
    metrics.decided(tenantId, query.action, decision.allow, expectsEvidence);
    // Most candidates of a search may be denied: that is what it asks.
    if (!decision.allow && !isSearch) denied(query);
    for (const alert of decision.alerts) {
      metrics.policyAlerted(tenantId, alert, decision.allow);
      const ids = { tenant_id: tenantId, decision_id: decisionId, trace_id: span?.traceId };
      const fields = { ...securityFields("policy_alert"), ...ids, alert, allow: decision.allow };
      logger.warn(fields, "a policy that alerts decided");
    }
  };
}

const spikeWindowMs = 60_000;
/** Denials of one principal, or of one subject of it, in a window that are reported, once in each. */
const spikeDenials = 20;
/** Most principals and subjects that are counted in a window: those denied first. */
const spikeCounts = 10_000;

/**
 * Counts denials in windows that begin every minute, and calls `onSpike` once for each of many: by principal, and apart
 * by subject of questions about others, because an enforcement point asks for all of its users.
 */
function denialCounter(clock: Clock, onSpike: (query: PolicyQuery) => void): (query: PolicyQuery) => void {
  let counts = new Map<string, number>();
  let windowEndsMs = 0;
  return (query) => {
    const { caller, onBehalfOf } = query;
    const nowMs = clock.now();
    if (nowMs >= windowEndsMs || nowMs < windowEndsMs - spikeWindowMs) {
      counts = new Map();
      windowEndsMs = nowMs + spikeWindowMs;
    }
    const key = JSON.stringify([caller.tenantId, caller.principalId, onBehalfOf?.type, onBehalfOf?.id]);
    const count = (counts.get(key) ?? 0) + 1;
    if (count > 1 || counts.size < spikeCounts) counts.set(key, count);
    if (count === spikeDenials) onSpike(query);
  };
}

// Quotas of tenants: the file that a setting names, and the counters that all replicas share.

/** Undefined without a setting. Rejects, naming the setting, if the file is invalid. */
export async function openQuotas(
  counters: PortionCounters,
  { clock, timers, metrics, files }: Machine,
): Promise<Quotas | undefined> {
  const file = await files.follow("quotas", { parse: ([text = ""]) => parseQuotaFile(text) });
  return file && new Quotas({ table: () => file.current, counters, clock, timers, onEvent: metrics.quotaEvent });
}

/** Methods whose bodies may have artifacts. Streams count the artifacts of each batch. */
const artifactMethods: ReadonlySet<string> = new Set([
  "RegistrationService/RegisterArtifact",
  "BulkRecordService/RegisterArtifacts",
]);

/** The quotas that calls of each method use. Only calls that change something are recorded. */
function quotaUses(methods: readonly (Pick<ServedMethod, "rpc"> & Partial<ServedMethod>)[]): (rpc: string) => QuotaUse {
  const recorded = new Set(methods.flatMap(({ rpc, verb }) => (verb === "GET" ? [] : [rpc])));
  return (rpc) => ({ isRecorded: recorded.has(rpc), isArtifact: artifactMethods.has(rpc) });
}
