import { totalmem } from "node:os";
import { performance } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import { create, type DescService } from "@bufbuild/protobuf";
import { file_google_rpc_error_details } from "../../gen/google/rpc/error_details_pb.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { DiscoveryService } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../../gen/platform/sdk/v1/registration_pb.ts";
import packageFile from "../../package.json" with { type: "json" };
import type { InboundRequest } from "../auth/inbound-request.ts";
import { callerAddress } from "../auth/trusted-ingress.ts";
import type { Clock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import { isInNetworks, isLoopbackAddress } from "../base/network.ts";
import type { TlsFiles } from "../base/replaceable-tls.ts";
import type { FixedLimits } from "../config/limits.ts";
import type { ConfigFor } from "../config/uses.ts";
import { bulkRoutes } from "../domain/bulk-routes.ts";
import type { DecisionDependencies } from "../domain/decision.ts";
import { createDiscovery } from "../domain/discovery.ts";
import { createEvidence } from "../domain/evidence.ts";
import { createKeyAccess } from "../domain/key-access.ts";
import { type LivePlatform, platformStatus } from "../domain/platform-domains.ts";
import { createProtection } from "../domain/protection.ts";
import { createRegistrations, type RegistrationDependencies } from "../domain/registration.ts";
import { routes, type ScopeTable } from "../domain/routes.ts";
import type { PublishedOptions } from "../portal/published.ts";
import type { RootLogger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Tracing } from "../telemetry/tracing/tracing.ts";
import { createCallSpans } from "../transport/calls/call-spans.ts";
import {
  bind,
  publicServices,
  type ServedMethod,
  type ServiceBinding,
  servedMethods,
} from "../transport/calls/methods.ts";
import { createReport } from "../transport/calls/report.ts";
import { itemField } from "../transport/codec/items.ts";
import { type ChainOptions, createChain } from "../transport/gate/chain.ts";
import { settleQuotas } from "../transport/gate/quota.ts";
import { type BodyBudget, createBodyBudget } from "../transport/http/body-budget.ts";
import type { ServerOptions } from "../transport/http/server.ts";
import { createDiscoveryService } from "../transport/rpc/discovery.ts";
import { createEvidenceService } from "../transport/rpc/evidence.ts";
import { createProtectionService } from "../transport/rpc/protection.ts";
import { createRegistrationService } from "../transport/rpc/registration.ts";
import {
  createHealthService,
  type HealthMonitor,
  type HealthMonitorOptions,
} from "../transport/unauthenticated/health.ts";
import { type Catalog, createCatalog } from "../transport/unauthenticated/reflection-catalog.ts";
import { createReflectionService } from "../transport/unauthenticated/reflection-service.ts";
import { ingressOf } from "./callers.ts";
import type { FurtherApi } from "./further-apis.ts";

/** Configuration of the service. */
export type ServeConfig = ConfigFor<"serve"> & FixedLimits;

/** A service, before and after it listens. */
export interface App {
  readonly logger: RootLogger;
  /** Begins to listen on both addresses; resolves with their base URLs. */
  listen(): Promise<{ readonly url: string; readonly opsUrl: string }>;
  /** Takes files and policy directories as they are now, not when they have been seen to change. Does not reject. */
  reload(): Promise<void>;
  /** Stops accepting, lets what is in flight finish, and releases everything. True where nothing was cut off. */
  close(): Promise<boolean>;
}

/** What the machine provides, and where the service reports. */
export interface Machine {
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly logger: RootLogger;
  readonly metrics: Metrics;
  /** Absent where nothing is traced. */
  readonly tracing?: Tracing | undefined;
}

/** Version of the program, as its package says it. */
export const programVersion = packageFile.version;

/** What runs, for operators. */
export const buildInfo = { version: programVersion, node: process.versions.node };

/** Longest time until request headers are complete, and that an idle connection is kept, in milliseconds. */
const headersTimeoutMs = 10_000;
const idleTimeoutMs = 65_000;
/** Room for a token of 8 KiB, a forwarded certificate, and what proxies add. */
const maxHeaderBytes = 32 * 1024;

/** The public methods over their domain. */
export function methodsOf(
  service: string,
  dependencies: DecisionDependencies & RegistrationDependencies,
): ServedMethod[] {
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
export const healthNeeds: HealthMonitorOptions["services"] = new Map<string, readonly string[] | "all">([
  [DiscoveryService.typeName, ["issuer_keys"]],
  [ProtectionService.typeName, "all"],
  [RegistrationService.typeName, ["issuer_keys", "store"]],
  [EvidenceService.typeName, ["issuer_keys", "store"]],
]);

/** What needs no credentials: health, and reflection where it is on. */
export function unauthenticatedServices(
  health: HealthMonitor,
  { reflection }: ServeConfig,
  further: readonly DescService[],
): ServiceBinding[] {
  const bindings = [bind(Health, createHealthService(health))];
  if (!reflection) return bindings;
  let catalog: Catalog | undefined;
  const service = createReflectionService(() => {
    catalog ??= createCatalog([...publicServices, ...further, Health], [file_google_rpc_error_details]);
    return catalog;
  });
  return [...bindings, bind(ServerReflection, service.v1), bind(ServerReflectionAlpha, service.v1alpha)];
}

/** Options of the server: the chain that every call passes, limits and listener. */
export function serverOptions(
  config: ServeConfig,
  methods: readonly ServedMethod[],
  chainOptions: Pick<ChainOptions, "verifier" | "requiredScopes" | "withoutCredentials" | "quotas" | "itemQuotas">,
  { clock, random, logger, metrics, tracing }: Machine,
  tls: TlsFiles | undefined,
  apis: readonly FurtherApi[] = [],
): ServerOptions {
  const memory = watchMemory();
  const report = createReport(logger, metrics, clock);
  const ingress = ingressOf(config);
  const onMalformed = once((entry: string) =>
    logger.warn(
      { entry: entry.slice(0, 64) },
      "an entry of X-Forwarded-For is no address: such callers count as the ingress, all as one",
    ),
  );
  const addressOf = (inbound: InboundRequest) => callerAddress(inbound, ingress, onMalformed);
  const chain = createChain({
    service: config.serviceName,
    headerPrefix: config.headerPrefix,
    ...chainOptions,
    warmUp: [
      ...methods.flatMap(({ spec: { method } }) => [method.input, itemField(method.input)?.message ?? []].flat()),
      ...apis.flatMap(({ streamRequests = [] }) => streamRequests),
    ].map((desc) => ({ desc, sample: create(desc) })),
  });
  const streamServices = apis.flatMap(({ streams }) => streams?.(chain.rules) ?? []);
  const streamDescs = streamServices.map(({ desc }) => desc);
  const endSpan = tracing && createCallSpans(methods, streamDescs, config.tlsCert === undefined ? "http" : "https");
  return {
    service: config.serviceName,
    methods,
    ...chain,
    addressOf,
    bodies: bodyBudgetOf(config, addressOf, metrics, memory.isTight),
    isShortOfMemory: memory.isShort,
    streamServices,
    headerPrefix: config.headerPrefix,
    limits: {
      maxBodyBytes: maxBodyBytesOf(config),
      maxItemBytes: maxItemBytesOf(config),
      bodyTimeoutMs: config.bodyTimeoutMs,
      maxDeadlineMs: config.maxDeadlineMs,
    },
    watchAdmission: (waiting, places) => {
      metrics.watchQueue("admission", waiting);
      metrics.watchPlaces(places);
    },
    tenantHeader: `${config.headerPrefix}tenant-id`,
    listener: {
      ...(tls !== undefined && { tls }),
      headersTimeoutMs,
      requestTimeoutMs: headersTimeoutMs + config.bodyTimeoutMs,
      idleTimeoutMs,
      maxHeaderBytes,
      answerTimeoutMs: config.answerTimeoutMs,
      maxConnections: config.maxConnections,
      isShared: (address) => isLoopbackAddress(address) || isInNetworks(config.trustedProxies, address),
      onRefused: countedWarning(logger, "connections refused: there are too many"),
      onDefect: defectReport(logger),
    },
    clock,
    random,
    tracing,
    onAnswered: (answered) => {
      endSpan?.(answered);
      settleQuotas(answered.call);
      report(answered);
    },
  };
}

const warningPauseMs = 60_000;

/** Warns at once, and then at most once a minute, with the number that it stands for. */
function countedWarning(logger: RootLogger, message: string): () => void {
  let count = 0;
  let warnedAtMs = Number.NEGATIVE_INFINITY;
  return () => {
    count += 1;
    const nowMs = performance.now();
    if (nowMs - warnedAtMs < warningPauseMs) return;
    logger.warn({ count }, message);
    warnedAtMs = nowMs;
    count = 0;
  };
}

/** Tells of a defect that ended a connection, and nothing else. */
export function defectReport(logger: RootLogger): ServerOptions["listener"]["onDefect"] {
  return (error, remoteAddress) =>
    logger.error({ err: error, remote_address: remoteAddress }, "unexpected error: connection ended");
}

/** What the published pages say of the deployment. */
export function publishedOptions(
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

/** Least and most for request bodies where no setting says it: what is made of a body takes several times as much. */
const leastBodyBudgetBytes = 32 * 1024 * 1024;
const mostBodyBudgetBytes = 64 * 1024 * 1024;

function bodyBudgetOf(
  { bodyBudgetBytes }: ServeConfig,
  addressOf: ServerOptions["addressOf"],
  metrics: Metrics,
  isTight: () => boolean,
): BodyBudget {
  const share = Math.floor(memoryLimitBytes() / 8);
  const maxBytes = bodyBudgetBytes ?? Math.min(mostBodyBudgetBytes, Math.max(leastBodyBudgetBytes, share));
  const budget = createBodyBudget({ maxBytes, addressOf, isTight, onRefused: metrics.bodyRefused });
  metrics.watchBodies(() => budget.inFlightBytes);
  return budget;
}

/** Largest request body by method. */
export function maxBodyBytesOf(
  config: Pick<ServeConfig, "maxBodyBytes" | "maxArtifactBodyBytes" | "maxBulkBodyBytes">,
): (rpc: string) => number {
  const bulk = new Set(bulkRoutes.map(({ rpc }) => rpc));
  return (rpc) => {
    if (bulk.has(rpc)) return config.maxBulkBodyBytes;
    return rpc === "RegistrationService/RegisterArtifact" ? config.maxArtifactBodyBytes : config.maxBodyBytes;
  };
}

/** Largest item of bulk methods: what their single routes take. */
function maxItemBytesOf(config: ServeConfig): (rpc: string) => number {
  const single = new Map(bulkRoutes.map(({ rpc, single }) => [rpc, routes.find(({ route }) => route === single)?.rpc]));
  const maxBytes = maxBodyBytesOf(config);
  return (rpc) => maxBytes(single.get(rpc) ?? rpc);
}

/** Does it the first time, and never again. */
function once(tell: (entry: string) => void): (entry: string) => void {
  let isTold = false;
  return (entry) => {
    if (!isTold) tell(entry);
    isTold = true;
  };
}

/** Of the container, where it is limited; else of the machine. Bytes. */
function memoryLimitBytes(): number {
  // 0, or more than there is, where there is no limit.
  return Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
}

/** Share of either limit from which on large bodies come one by one, and from which on calls do not wait. */
const tightShare = 0.75;
const shortShare = 0.9;
/** Looking costs some microseconds: once in so many milliseconds is enough. */
const lookAgainMs = 20;

interface MemoryWatch {
  /** Whether there is little left. */
  readonly isTight: () => boolean;
  /** Whether there is next to nothing left. */
  readonly isShort: () => boolean;
}

/** Watches what is resident of the process, and the heap of this thread. */
function watchMemory(limitBytes = memoryLimitBytes()): MemoryWatch {
  let share = 0;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  const look = () => {
    const nowMs = performance.now();
    if (nowMs - lookedAtMs < lookAgainMs) return share;
    lookedAtMs = nowMs;
    const { used_heap_size: heapBytes, heap_size_limit: heapLimitBytes } = getHeapStatistics();
    share = Math.max(process.memoryUsage.rss() / limitBytes, heapBytes / heapLimitBytes);
    return share;
  };
  return { isTight: () => look() > tightShare, isShort: () => look() > shortShare };
}
