import { totalmem } from "node:os";
import { performance } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import type { DescService } from "@bufbuild/protobuf";
import { file_google_rpc_error_details } from "../../gen/google/rpc/error_details_pb.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { DiscoveryService } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../../gen/platform/sdk/v1/registration_pb.ts";
import packageFile from "../../package.json" with { type: "json" };
import { callerAddress } from "../auth/trusted-ingress.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import { isInNetworks, isLoopbackAddress } from "../base/network.ts";
import type { ConfigFor } from "../config/config.ts";
import type { FixedLimits } from "../config/settings.ts";
import type { DecisionDependencies } from "../domain/decision.ts";
import { type LivePlatform, platformDomains } from "../domain/platform-domains.ts";
import type { RegistrationDependencies } from "../domain/registration.ts";
import { bulkRoutes, routes, type ScopeTable } from "../domain/routes.ts";
import { type BodyBudget, createBodyBudget } from "../http/body.ts";
import type { TlsFiles } from "../http/replaceable-tls.ts";
import type { PublishedOptions } from "../portal/pages.ts";
import type { RootLogger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { createCallSpans } from "../transport/calls/call-spans.ts";
import { bind, type ServedMethod, type ServiceBinding, servedMethods } from "../transport/calls/methods.ts";
import { createReport } from "../transport/calls/report.ts";
import { type ChainOptions, createChain } from "../transport/gate/chain.ts";
import { settleQuotas } from "../transport/gate/quota.ts";
import { createDiscoveryService } from "../transport/rpc/discovery.ts";
import { createProtectionService } from "../transport/rpc/protection.ts";
import { createEvidenceService, createRegistrationService } from "../transport/rpc/records.ts";
import type { ServerOptions } from "../transport/server.ts";
import type { HealthAnswers } from "../transport/unauthenticated/health.ts";
import { createCatalog, createReflectionService } from "../transport/unauthenticated/reflection.ts";
import { ingressOf } from "./callers.ts";
import type { Machine } from "./followed-files.ts";
import type { EnabledApi } from "./further-apis.ts";

/** Configuration of the service. */
export type ServeConfig = ConfigFor<"serve"> & FixedLimits;

/** A service, before and after it listens. */
export interface App {
  readonly logger: RootLogger;
  /** Starts to listen on both addresses; resolves with their base URLs. */
  listen(): Promise<{ readonly url: string; readonly opsUrl: string }>;
  /** Loads files and policy directories now, without waiting for a poll. Does not reject. */
  reload(): Promise<void>;
  /** Stops accepting, waits for calls in flight, and releases everything. Resolves with whether all calls finished. */
  close(): Promise<boolean>;
}

/** Version of the program, from its package file. */
export const programVersion = packageFile.version;

/** Versions of the running program, for operators. */
export const buildInfo = { version: programVersion, node: process.versions.node };

/** Time limit for request headers, and keep-alive time of an idle connection, in milliseconds. */
const headersTimeoutMs = 10_000;
const idleTimeoutMs = 65_000;
/** Enough for a token of 8 KiB, a forwarded certificate, and headers of proxies. */
const maxHeaderBytes = 32 * 1024;

/** The SDK's public methods over their domain. */
export function sdkApi(service: string, dependencies: DecisionDependencies & RegistrationDependencies): EnabledApi {
  return {
    methods: servedMethods([
      bind(DiscoveryService, createDiscoveryService(service, dependencies)),
      bind(ProtectionService, createProtectionService(service, dependencies)),
      bind(RegistrationService, createRegistrationService(service, dependencies)),
      bind(EvidenceService, createEvidenceService(service, dependencies)),
    ]),
    services: new Map<DescService, readonly string[] | "all">([
      [DiscoveryService, ["issuer_keys"]],
      [ProtectionService, "all"],
      [RegistrationService, ["issuer_keys", "store"]],
      [EvidenceService, ["issuer_keys", "store"]],
    ]),
    pages: [],
  };
}

/** Services that need no credentials: health, those of further APIs, and reflection if it is on. */
export function unauthenticatedServices(
  health: HealthAnswers,
  { reflection }: ServeConfig,
  apis: readonly EnabledApi[],
): ServiceBinding[] {
  const open = apis.flatMap(({ openServices = [] }) => openServices);
  const bindings = [bind(Health, health.service), ...open];
  if (!reflection) return bindings;
  const services = [...apis.flatMap(({ services }) => [...services.keys()]), Health];
  const service = createReflectionService(() => createCatalog(services, [file_google_rpc_error_details]));
  return [...bindings, bind(ServerReflection, service.v1), bind(ServerReflectionAlpha, service.v1alpha)];
}

/** Options of the server: the chain that every call passes, limits and listener. */
export function serverOptions(
  config: ServeConfig,
  methods: readonly ServedMethod[],
  chainOptions: Pick<ChainOptions, "verifier" | "requiredScopes" | "withoutCredentials" | "quotas">,
  { clock, random, logger, metrics, tracing }: Machine,
  tls: TlsFiles | undefined,
  apis: readonly EnabledApi[],
): ServerOptions {
  const memory = watchMemory();
  const rpcServices = apis.flatMap(({ rpcServices = [] }) => rpcServices);
  const report = createReport(logger, metrics, clock);
  const ingress = ingressOf(config);
  let isMalformedLogged = false;
  const onMalformed = (entry: string) => {
    const warning = "an entry of X-Forwarded-For is not an address: all such callers are counted as the ingress";
    if (!isMalformedLogged) logger.warn({ entry: entry.slice(0, 64) }, warning);
    isMalformedLogged = true;
  };
  const addressOf = (inbound: InboundRequest) => callerAddress(inbound, ingress, onMalformed);
  const takesTokens = config.authMode !== "trusted_headers";
  const chain = createChain({ headerPrefix: config.headerPrefix, addressOf, takesTokens, ...chainOptions });
  const rpcDescs = rpcServices.map(({ desc }) => desc);
  const endSpan = tracing && createCallSpans(methods, rpcDescs, config.tlsCert === undefined ? "http" : "https");
  return {
    service: config.serviceName,
    methods,
    ...chain,
    addressOf,
    bodies: bodyBudgetOf(config, addressOf, metrics, memory.isTight),
    isShortOfMemory: memory.isShort,
    rpcServices,
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
    listener: {
      ...(tls !== undefined && { tls }),
      headersTimeoutMs,
      requestTimeoutMs: headersTimeoutMs + config.bodyTimeoutMs,
      idleTimeoutMs,
      maxHeaderBytes,
      answerTimeoutMs: config.answerTimeoutMs,
      maxConnections: config.maxConnections,
      isShared: (address) => isLoopbackAddress(address) || isInNetworks(config.trustedProxies, address),
      onRefused: countedWarning(logger, "connections refused: too many are open"),
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

/** Warns at once, and then at most once a minute, with the number of events since. */
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

/** Reports a defect that ended a connection. */
export function defectReport(logger: RootLogger): ServerOptions["listener"]["onDefect"] {
  return (error, remoteAddress) =>
    logger.error({ err: error, remote_address: remoteAddress }, "unexpected error: connection ended");
}

/** The deployment's settings that the published pages show. */
export function publishedOptions(config: ServeConfig, scopes: ScopeTable, live: LivePlatform): PublishedOptions {
  return {
    scopes,
    service: config.serviceName,
    version: programVersion,
    headerPrefix: config.headerPrefix,
    authMode: config.authMode,
    proofOfPossession: config.proofOfPossession,
    maxBodyBytes: maxBodyBytesOf(config),
    serverUrl: config.publicUrl,
    explorer: config.explorer,
    isReady: () => platformDomains(live).every(({ configured }) => configured),
  };
}

/** Bounds of the total size of request bodies without a setting: a parsed body takes several times as much memory. */
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

/** Largest item of bulk methods: the limit of their single routes. */
function maxItemBytesOf(config: ServeConfig): (rpc: string) => number {
  const single = new Map(bulkRoutes.map(({ rpc, like }) => [rpc, routes.find(({ route }) => route === like)?.rpc]));
  const maxBytes = maxBodyBytesOf(config);
  return (rpc) => maxBytes(single.get(rpc) ?? rpc);
}

/** Memory limit of the container, or else the machine's memory, in bytes. */
function memoryLimitBytes(): number {
  // 0, or more than the machine has, without a limit.
  return Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
}

/** Share of either limit from which large bodies are read one at a time, and from which calls do not wait. */
const tightShare = 0.75;
const shortShare = 0.9;
/** Minimum time between measurements, each of which may take a third of a millisecond, in milliseconds. */
const lookAgainMs = 50;

/** Watches the resident memory of the process, and the heap of this thread: whether little is left, or almost none. */
function watchMemory(limitBytes = memoryLimitBytes()) {
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
