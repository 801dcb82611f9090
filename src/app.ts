/** Where everything meets: a configuration becomes a running service. Nothing else knows all the rooms. */
import { randomFillSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { create } from "@bufbuild/protobuf";
import { file_google_rpc_error_details } from "../gen/google/rpc/error_details_pb.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { DiscoveryService } from "../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../gen/platform/sdk/v1/registration_pb.ts";
import packageFile from "../package.json" with { type: "json" };
import { createArtifactHasher } from "./artifacts/hasher.ts";
import type { Authenticator } from "./auth/authenticator.ts";
import type { ReplayStore } from "./auth/replay-store.ts";
import { type Clock, systemClock } from "./base/clock.ts";
import { ServiceError } from "./base/errors.ts";
import type { RandomFill } from "./base/ids.ts";
import { systemTimers, type Timers } from "./base/timers.ts";
import { authConfiguration, openCallers, takesIssuerTokens } from "./callers.ts";
import type { ConfigFor } from "./config/uses.ts";
import type { DecisionDependencies } from "./domain/decision.ts";
import { createDiscovery } from "./domain/discovery.ts";
import { createEvidence } from "./domain/evidence.ts";
import { createKeyAccess } from "./domain/key-access.ts";
import { type LivePlatform, platformStatus } from "./domain/platform-domains.ts";
import { createProtection } from "./domain/protection.ts";
import { createRegistrations, type RegistrationDependencies } from "./domain/registration.ts";
import { createScopeTable, type ScopeTable } from "./domain/routes.ts";
import type { AttemptCounters } from "./domain/session-ports.ts";
import { ObservedLedger } from "./ledger/observed.ts";
import type { PublishedLogs } from "./ledger/ports.ts";
import { type LivePolicy, openLivePolicy } from "./live-policy.ts";
import { createOpsListener } from "./ops/listener.ts";
import { type ReadinessCheck, runChecks } from "./ops/readiness.ts";
import { openSqliteStores } from "./stores/sqlite/open-ledger.ts";
import { sqlitePlace } from "./stores/sqlite/place.ts";
import { createLogger, type RootLogger } from "./telemetry/logger.ts";
import { createMetrics, type Metrics } from "./telemetry/metrics.ts";
import { type ChainOptions, createChain } from "./transport/chain.ts";
import { createHealthMonitor, type HealthMonitor, type HealthMonitorOptions } from "./transport/health/monitor.ts";
import { createHealthService } from "./transport/health/service.ts";
import { bind, type ServedMethod, type ServiceBinding, servedMethods } from "./transport/methods.ts";
import { type PublishedOptions, publishedPages } from "./transport/pages/published.ts";
import { createCatalog } from "./transport/reflection/catalog.ts";
import { createReflectionService } from "./transport/reflection/service.ts";
import { reportAnswered } from "./transport/report.ts";
import { createDiscoveryService } from "./transport/rpc/discovery.ts";
import { createEvidenceService } from "./transport/rpc/evidence.ts";
import { createProtectionService } from "./transport/rpc/protection.ts";
import { createRegistrationService } from "./transport/rpc/registration.ts";
import { createServer, type ServerOptions } from "./transport/server.ts";
import { publicServices } from "./transport/services.ts";

/** Configuration of the service. */
export type ServeConfig = ConfigFor<"serve">;

/** What the machine provides. Tests put their own in its place. */
export interface Overrides {
  readonly clock?: Clock;
  readonly timers?: Timers;
  readonly random?: RandomFill;
  readonly fetch?: typeof globalThis.fetch;
  readonly logger?: RootLogger;
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

/** Version of the program, as its package says it. */
const programVersion = packageFile.version;

/** Longest time until request headers are complete, and that an idle connection is kept, in milliseconds. */
const headersTimeoutMs = 10_000;
const idleTimeoutMs = 65_000;
/** Room for a token of 8 KiB, a forwarded certificate, and what proxies add. */
const maxHeaderBytes = 32 * 1024;

/** Builds the service. Rejects with every problem of the policy directory, or where the store cannot be opened. */
export async function build(config: ServeConfig, overrides: Overrides = {}): Promise<App> {
  const clock = overrides.clock ?? systemClock;
  const timers = overrides.timers ?? systemTimers;
  const random = overrides.random ?? ((bytes) => randomFillSync(bytes));
  const logger = overrides.logger ?? createLogger({ level: config.logLevel, serviceName: config.serviceName });
  const metrics = createMetrics({ process: true });
  const policy = await openLivePolicy(config, { timers, logger, metrics });
  const { ledger, logs, shared } = await openStores(config, { clock, random, logger, metrics });
  await policy.keepIn(ledger);
  const fetch = overrides.fetch ?? globalThis.fetch;
  const callers = await openCallers(config, shared, { clock, timers, random, fetch, logger, metrics }).catch(
    async (error: unknown) => {
      await ledger.close();
      throw error;
    },
  );
  const { authenticator, session } = callers;
  const hasher = createArtifactHasher();
  const scopes = createScopeTable(config.defaultRequiredScopes, config.routeScopes);
  const live = livePlatform(config, authenticator, policy, ledger);
  const deployment = {
    supportedOperations: config.supportedOperations,
    supportedProfiles: config.supportedProfiles,
    scopes,
    showReasons: config.reasons,
    decisionMaxAgeSeconds: config.decisionMaxAgeSeconds,
  };
  const deciding = { engine: policy.engine, ...(policy.observe !== undefined && { observe: policy.observe }) };
  const methods = methodsOf(config.serviceName, { deployment, live, ledger, clock, random, hasher, ...deciding });
  const checks: readonly ReadinessCheck[] = [
    { name: "store", check: () => ledger.check() },
    // A set that was refused is a remark: the one in force is good, and a mistake must not stop every replica at once.
    { name: "policy", check: async () => {}, remark: () => policyRemark(policy) },
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
    pages: [...publishedPages(publishedOptions(config, methods, scopes, live)), ...session.pages],
    openServices: openServices(health, config),
  });
  const ops = createOpsListener({
    serviceName: config.serviceName,
    checks,
    metrics,
    // Nobody is asked for credentials here: off this machine nothing that concerns a tenant is shown.
    logs: config.opsListen.loopback ? logs : undefined,
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
      const opsAddress = await ops.listen(config.opsListen);
      const { port } = await server.listen(config.listen.host, config.listen.port);
      const scheme = config.tlsCert === undefined ? "http" : "https";
      return {
        url: config.publicUrl ?? `${scheme}://${hostInUrl(config.listen.host)}:${port}`,
        opsUrl: `http://${hostInUrl(config.opsListen.host)}:${opsAddress.port}`,
      };
    },
    async close() {
      health.stop();
      await policy.stop();
      const clean = await server.close(config.shutdownGraceMs);
      await ops.close();
      callers.close();
      await hasher.close();
      await ledger.close();
      policy.release();
      metrics.close();
      await logger.close();
      return clean;
    },
  };
}

interface Machine {
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly logger: RootLogger;
  readonly metrics: Metrics;
}

interface OpenedStores {
  readonly ledger: ObservedLedger;
  readonly logs: PublishedLogs;
  /** What replicas share for a short time; closed with the ledger. */
  readonly shared: ReplayStore & AttemptCounters;
}

async function openStores(config: ServeConfig, machine: Machine): Promise<OpenedStores> {
  const { clock, random, logger, metrics } = machine;
  const { store, ledgerOrigin: originPrefix } = config;
  if (store.kind !== "sqlite") throw new Error("SVC_STORE: this build has no PostgreSQL store");
  const place = sqlitePlace(store.path, config);
  const { ledger, shared } = await openSqliteStores({ ...place, originPrefix, clock, random, logger });
  return { ledger: new ObservedLedger(ledger, metrics.appendFailed), logs: ledger, shared };
}

function requireIssuerKeys(authenticator: Authenticator): void {
  const { issuerReady, detail } = authenticator.status();
  if (!issuerReady) throw new ServiceError("issuer_unavailable", detail);
}

function livePlatform(
  config: ServeConfig,
  authenticator: Authenticator,
  policy: LivePolicy,
  ledger: ObservedLedger,
): LivePlatform {
  return {
    authMode: config.authMode,
    authConfiguration: () => authConfiguration(config, authenticator.status().issuerReady),
    policy: () => ({ configured: true, reason: policyReason(policy) }),
    ledger: () =>
      ledger.writable
        ? { configured: true, reason: "Records are written to the evidence ledger before they are answered." }
        : { configured: false, reason: "The record store cannot be written now." },
    managedKeyPatterns: config.keyReferences.length,
  };
}

/** Completes "the revision in force; a newer set …" where the newest set is not the one in force. */
const newerSet = { refused: "was refused", failed: "could not be taken yet" } as const;

function policyReason({ engine, standing }: LivePolicy): string {
  const { newest } = standing();
  const more = newest === "in_force" ? "" : `; a newer policy set ${newerSet[newest]}`;
  return `Policy revision ${engine.revision} is in force${more}.`;
}

/** For operators: how many problems there are. What they are stands in the log, which fewer people read. */
function policyRemark({ standing }: LivePolicy): string | undefined {
  const { newest, problems = [] } = standing();
  if (newest === "in_force") return undefined;
  return `a newer policy set ${newerSet[newest]}${problems.length > 0 ? `, for ${problems.length} problems that the log names` : ""}`;
}

function methodsOf(service: string, dependencies: DecisionDependencies & RegistrationDependencies): ServedMethod[] {
  const { deployment, live } = dependencies;
  return servedMethods([
    bind(DiscoveryService, createDiscoveryService(service, createDiscovery(deployment, live))),
    bind(
      ProtectionService,
      createProtectionService(service, createProtection(dependencies), createKeyAccess(dependencies)),
    ),
    bind(RegistrationService, createRegistrationService(service, createRegistrations(dependencies))),
    bind(EvidenceService, createEvidenceService(service, createEvidence(dependencies))),
  ]);
}

/** Readiness checks that each public service needs. */
const healthNeeds: HealthMonitorOptions["services"] = new Map<string, readonly string[] | "all">([
  [DiscoveryService.typeName, ["issuer_keys"]],
  [ProtectionService.typeName, "all"],
  [RegistrationService.typeName, ["issuer_keys", "store"]],
  [EvidenceService.typeName, ["issuer_keys", "store"]],
]);

/** What needs no credentials: health, and reflection where it is on. */
function openServices(health: HealthMonitor, { reflection }: ServeConfig): ServiceBinding[] {
  const bindings = [bind(Health, createHealthService(health))];
  if (!reflection) return bindings;
  const catalog = createCatalog([...publicServices, Health], [file_google_rpc_error_details]);
  const service = createReflectionService(catalog);
  return [...bindings, bind(ServerReflection, service.v1), bind(ServerReflectionAlpha, service.v1alpha)];
}

function serverOptions(
  config: ServeConfig,
  methods: readonly ServedMethod[],
  chainOptions: Pick<ChainOptions, "verifier" | "requiredScopes" | "withoutCredentials">,
  { clock, random, logger, metrics }: Machine,
): ServerOptions {
  const chain = createChain({
    service: config.serviceName,
    headerPrefix: config.headerPrefix,
    ...chainOptions,
    warmUp: methods.map(({ spec }) => ({ desc: spec.method.input, sample: create(spec.method.input) })),
  });
  return {
    service: config.serviceName,
    methods,
    ...chain,
    limits: {
      maxBodyBytes: maxBodyBytesOf(config),
      bodyTimeoutMs: config.bodyTimeoutMs,
      maxDeadlineMs: config.maxDeadlineMs,
    },
    listener: {
      ...tlsOf(config),
      headersTimeoutMs,
      requestTimeoutMs: headersTimeoutMs + config.bodyTimeoutMs,
      idleTimeoutMs,
      maxHeaderBytes,
    },
    clock,
    random,
    onAnswered: (answered) => reportAnswered(answered, logger, metrics),
  };
}

function publishedOptions(
  config: ServeConfig,
  methods: readonly ServedMethod[],
  scopes: ScopeTable,
  live: LivePlatform,
): PublishedOptions {
  return {
    methods,
    scopes,
    service: config.serviceName,
    version: programVersion,
    headerPrefix: config.headerPrefix,
    authMode: config.authMode,
    proofOfPossession: config.proofOfPossession,
    maxBodyBytes: maxBodyBytesOf(config),
    serverUrl: config.publicUrl,
    explorer: config.explorer,
    isReady: () => Object.values(platformStatus(live)).every(({ configured }) => configured),
  };
}

function maxBodyBytesOf(config: ServeConfig): (rpc: string) => number {
  return (rpc) => (rpc === "RegistrationService/RegisterArtifact" ? config.maxArtifactBodyBytes : config.maxBodyBytes);
}

function tlsOf({ tlsCert, tlsKey, tlsClientCa }: ServeConfig): Pick<ServerOptions["listener"], "tls"> {
  if (tlsCert === undefined || tlsKey === undefined) return {};
  return {
    tls: {
      cert: readFileSync(tlsCert, "utf8"),
      key: readFileSync(tlsKey, "utf8"),
      ...(tlsClientCa !== undefined && { clientCa: readFileSync(tlsClientCa, "utf8") }),
    },
  };
}

function hostInUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
