/** The composition root: turns a configuration into a running service. */
import { randomFillSync } from "node:crypto";
import { performance } from "node:perf_hooks";
import type { Authenticator } from "../auth/authenticator.ts";
import type { ReplayStore } from "../auth/proof/replay-store.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import type { RandomFill } from "../base/ids.ts";
import { bufferedRandom } from "../base/random.ts";
import { systemTimers, type Timers } from "../base/timers.ts";
import { createArtifactHasher } from "../domain/artifacts/hasher.ts";
import type { DecisionDependencies } from "../domain/decision.ts";
import type { AttemptCounters } from "../domain/ports.ts";
import { createScopeTable } from "../domain/routes.ts";
import { ObservedLedger } from "../ledger/append/observed.ts";
import type { OpenSharedAnchor } from "../ledger/ports/anchor.ts";
import type { PublishedLogs } from "../ledger/ports/ledger.ts";
import { createOpsListener } from "../ops/listener.ts";
import { type ReadinessCheck, runChecks } from "../ops/readiness.ts";
import { keyReferenceAliases } from "../policy/guidance/key-references.ts";
import { publishedPages } from "../portal/published.ts";
import { storeBackend } from "../stores/backends.ts";
import { KeyFileError } from "../stores/key-file.ts";
import { createLogger, type Logger, type RootLogger } from "../telemetry/logger.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import type { AdmissionLimits } from "../transport/admission/admission.ts";
import { createServer } from "../transport/http/server.ts";
import { createHealthMonitor } from "../transport/unauthenticated/health.ts";
import { openCallers, takesIssuerTokens } from "./callers.ts";
import {
  defectReport,
  healthNeeds,
  type Machine,
  methodsOf,
  opsTlsOf,
  publishedOptions,
  type ServeConfig,
  serverOptions,
  unauthenticatedServices,
} from "./gateway.ts";
import { livePlatform, newerSet } from "./live-platform.ts";
import { type LivePolicy, openLivePolicy } from "./live-policy.ts";
import { openOpsViewers, servesLogs } from "./ops-viewers.ts";
import { witnessingOf } from "./witnessing.ts";

/** What the machine provides. Tests put their own in its place. */
export interface Overrides {
  readonly clock?: Clock;
  readonly timers?: Timers;
  readonly random?: RandomFill;
  readonly fetch?: typeof globalThis.fetch;
  readonly logger?: RootLogger;
  readonly admission?: AdmissionLimits;
}

/** A service, before and after it listens. */
export interface App {
  readonly logger: RootLogger;
  /** Begins to listen on both addresses; resolves with their base URLs. */
  listen(): Promise<{ readonly url: string; readonly opsUrl: string }>;
  /** Takes the policy directories as they are now, instead of when they have been seen to change. Does not reject. */
  reloadPolicy(): Promise<void>;
  /** Stops accepting, lets what is in flight finish, and releases everything. True where nothing was cut off. */
  close(): Promise<boolean>;
}

/** Builds the service. Rejects with every problem of the policy directory, or where the store cannot be opened. */
export async function build(config: ServeConfig, overrides: Overrides = {}): Promise<App> {
  const clock = overrides.clock ?? systemClock;
  const timers = overrides.timers ?? systemTimers;
  const random = overrides.random ?? bufferedRandom((bytes) => randomFillSync(bytes));
  const logger = overrides.logger ?? createLogger({ level: config.logLevel, serviceName: config.serviceName });
  const metrics = createMetrics({ process: true });
  const policy = await openLivePolicy(config, { timers, logger, metrics });
  const fetch = overrides.fetch ?? globalThis.fetch;
  const witnessing = witnessingOf(config, { clock, timers, fetch, logger, metrics });
  const machine = { clock, random, logger, metrics };
  const { ledger, logs, shared, stuck } = await openStores(config, machine, witnessing?.open);
  await policy.keepIn(ledger);
  const callers = await openCallers(config, shared, policy.engine.callerAttributes, {
    ...machine,
    timers,
    fetch,
  }).catch(async (error: unknown) => {
    await ledger.close();
    throw error;
  });
  const { authenticator, session } = callers;
  const viewers = await openOpsViewers(config, authenticator, { timers, logger }).catch(async (error: unknown) => {
    callers.close();
    await ledger.close();
    throw error;
  });
  if (!servesLogs(config))
    logger.warn({}, "the operator listener does not serve the logs: off loopback it needs SVC_OPS_TLS_CERT");
  const hasher = createArtifactHasher();
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
  const deciding = { engine: policy.engine, observe: observeDecisions(metrics, logger, policy) };
  const methods = methodsOf(config.serviceName, { deployment, live, ledger, clock, random, hasher, ...deciding });
  const checks: readonly ReadinessCheck[] = [
    { name: "store", check: () => ledger.check(), remark: () => stuckRemark(stuck()) },
    // A set that was refused is a remark: the one in force is good, and a mistake must not stop every replica at once.
    { name: "policy", check: async () => {}, remark: () => policyRemark(policy) },
    ...(witnessing === undefined ? [] : [witnessing.readiness]),
    ...(takesIssuerTokens(config)
      ? [{ name: "issuer_keys", check: async () => requireIssuerKeys(authenticator) }]
      : []),
  ];
  const health = createHealthMonitor({
    readiness: () => runChecks(checks, timers),
    services: healthNeeds,
    clock,
    timers,
  });
  const chainOptions = {
    verifier: authenticator,
    requiredScopes: scopes.requiredByRpc,
    withoutCredentials: session.withoutCredentials,
  };
  const server = await createServer({
    ...serverOptions(config, [...methods, ...session.methods], chainOptions, { clock, random, logger, metrics }),
    ...(overrides.admission !== undefined && { admissionLimits: overrides.admission }),
    pages: [...publishedPages(publishedOptions(config, methods, scopes, live)), ...session.pages],
    unauthenticatedServices: unauthenticatedServices(health, config),
  });
  const ops = createOpsListener({
    hold: server.admit,
    serviceName: config.serviceName,
    checks,
    metrics,
    logs: servesLogs(config) ? { logs, viewerOf: viewers.viewerOf } : undefined,
    ...opsTlsOf(config),
    loopback: config.opsListen.loopback,
    onDefect: defectReport(logger),
    logger,
    clock,
    timers,
    random,
  });
  return {
    logger,
    reloadPolicy: () => policy.reload(),
    async listen() {
      authenticator.start();
      policy.start();
      const opsAddress = await bound("SVC_OPS_LISTEN", ops.listen(config.opsListen));
      const { port } = await bound("SVC_LISTEN", server.listen(config.listen.host, config.listen.port));
      const scheme = config.tlsCert === undefined ? "http" : "https";
      return {
        url: config.publicUrl ?? `${scheme}://${hostInUrl(config.listen.host)}:${port}`,
        opsUrl: `${config.opsTlsCert === undefined ? "http" : "https"}://${hostInUrl(config.opsListen.host)}:${opsAddress.port}`,
      };
    },
    async close() {
      health.stop();
      await policy.stop();
      const clean = await server.close(config.shutdownGraceMs);
      await ops.close();
      callers.close();
      viewers.close();
      await hasher.close();
      await ledger.close();
      policy.release();
      metrics.close();
      await logger.close();
      return clean;
    },
  };
}

interface OpenedStores {
  readonly ledger: ObservedLedger;
  readonly logs: PublishedLogs;
  /** What replicas share for a short time; closed with the ledger. */
  readonly shared: ReplayStore & AttemptCounters;
  /** With whom the store does not get on, the longest first. */
  readonly stuck: () => readonly string[];
}

async function openStores(
  config: ServeConfig,
  machine: Machine,
  openAnchor: OpenSharedAnchor | undefined,
): Promise<OpenedStores> {
  const { clock, random, logger, metrics } = machine;
  const commits = { elapsedMs: () => performance.now(), committed: metrics.batchAppended };
  const backend = await storeBackend(config);
  const { ledger, shared, stuck } = await backend
    .openStores(config, { clock, random, logger, openAnchor, commits })
    .catch((cause: unknown) => {
      throw new Error(`${storeSetting(cause)}: ${cause instanceof Error ? cause.message : "cannot be opened"}`, {
        cause,
      });
    });
  metrics.watchStuck(() => stuck().length);
  return { ledger: new ObservedLedger(ledger, metrics.appendFailed), logs: ledger, shared, stuck };
}

const namedInRemark = 3;

/** Others are served: the service is ready, and an operator should know all the same. */
function stuckRemark(stuck: readonly string[]): string | undefined {
  if (stuck.length === 0) return undefined;
  const others = stuck.length - namedInRemark;
  const names = stuck.slice(0, namedInRemark).join(", ");
  return `the database does not get on with ${names}${others > 0 ? `, and ${others} more` : ""}`;
}

/** Counts each decision that is recorded, raises its alerts, and shows it to the candidate policy set where there is one. */
function observeDecisions(
  metrics: Metrics,
  logger: Logger,
  { observe }: LivePolicy,
): NonNullable<DecisionDependencies["observe"]> {
  return ({ query, decision, decisionId, isComplete }) => {
    metrics.decided(query.action, decision.allow);
    const { tenantId } = query.caller;
    for (const alert of decision.alerts) {
      metrics.policyAlerted(tenantId, alert);
      logger.warn({ tenant_id: tenantId, decision_id: decisionId, alert }, "a policy that alerts decided");
    }
    observe?.(query, decision, decisionId, isComplete);
  };
}

/** The setting that a store was not opened for. */
function storeSetting(problem: unknown): "SVC_LEDGER_KEY" | "SVC_STORE" {
  return problem instanceof KeyFileError ? "SVC_LEDGER_KEY" : "SVC_STORE";
}

function requireIssuerKeys(authenticator: Authenticator): void {
  const { issuerReady, detail } = authenticator.status();
  if (!issuerReady) throw new ServiceError("issuer_unavailable", detail);
}

/** For operators: how many problems there are. What they are stands in the log, which fewer people read. */
function policyRemark({ status }: LivePolicy): string | undefined {
  const { newest, problems = [] } = status();
  if (newest === "in_force") return undefined;
  return `a newer policy set ${newerSet[newest]}${problems.length > 0 ? `, for ${problems.length} problems that the log names` : ""}`;
}

/** The address, or a rejection that names the setting. The system's own words name the address and what is wrong. */
async function bound<Address>(setting: string, listening: Promise<Address>): Promise<Address> {
  try {
    return await listening;
  } catch (cause) {
    throw new Error(`${setting}: ${cause instanceof Error ? cause.message : "cannot be listened on"}`, { cause });
  }
}

function hostInUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
