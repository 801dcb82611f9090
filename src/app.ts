/** Where everything meets: a configuration becomes a running service. Nothing else knows all the rooms. */
import { randomFillSync } from "node:crypto";
import { readFileSync } from "node:fs";
import * as fileSystem from "node:fs/promises";
import { create } from "@bufbuild/protobuf";
import { DiscoveryService } from "../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../gen/platform/sdk/v1/registration_pb.ts";
import { createArtifactHasher } from "./artifacts/hasher.ts";
import { type Authenticator, type AuthenticatorEvent, createAuthenticator } from "./auth/authenticator.ts";
import type { ProofOfPossessionRule } from "./auth/confirmation.ts";
import { type Clock, systemClock } from "./base/clock.ts";
import { ServiceError } from "./base/errors.ts";
import type { RandomFill } from "./base/ids.ts";
import { systemTimers, type Timers } from "./base/timers.ts";
import type { ConfigFor } from "./config/uses.ts";
import type { DecisionDependencies } from "./domain/decision.ts";
import { createDiscovery } from "./domain/discovery.ts";
import { createEvidence } from "./domain/evidence.ts";
import { createKeyAccess } from "./domain/key-access.ts";
import type { LivePlatform } from "./domain/platform-domains.ts";
import { createProtection } from "./domain/protection.ts";
import { createRegistrations, type RegistrationDependencies } from "./domain/registration.ts";
import { createScopeTable, type ScopeTable } from "./domain/routes.ts";
import { ObservedLedger } from "./ledger/observed.ts";
import { createOpsListener } from "./ops/listener.ts";
import { loadPolicyDirectory } from "./policy/directory.ts";
import { type CompiledEngine, compilePolicyBundle } from "./policy/engine.ts";
import { describeProblem, type PolicyProblem } from "./policy/problem.ts";
import { openSqliteLedger } from "./stores/sqlite/open-ledger.ts";
import { createLogger, type RootLogger } from "./telemetry/logger.ts";
import { createMetrics, type Metrics } from "./telemetry/metrics.ts";
import { createChain } from "./transport/chain.ts";
import { bind, type ServedMethod, servedMethods } from "./transport/methods.ts";
import { reportAnswered } from "./transport/report.ts";
import { createDiscoveryService } from "./transport/rpc/discovery.ts";
import { createEvidenceService } from "./transport/rpc/evidence.ts";
import { createProtectionService } from "./transport/rpc/protection.ts";
import { createRegistrationService } from "./transport/rpc/registration.ts";
import { createServer, type ServerOptions } from "./transport/server.ts";

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
  /** Stops accepting, lets what is in flight finish, and releases everything. True where nothing was cut off. */
  close(): Promise<boolean>;
}

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
  const engine = await loadEngine(config);
  const ledger = await openLedger(config, { clock, random, logger, metrics });
  await ledger.keepPolicyRevision(engine.revision, engine.content);
  const authenticator = createAuthenticator(authenticatorOptions(config), {
    clock,
    timers,
    random: Math.random,
    fetch: overrides.fetch ?? globalThis.fetch,
    onEvent: (event) => reportAuthentication(event, logger, metrics),
  });
  const hasher = createArtifactHasher();
  const scopes = createScopeTable(config.defaultRequiredScopes, config.routeScopes);
  const live = livePlatform(config, authenticator, engine, ledger);
  const deployment = {
    supportedOperations: config.supportedOperations,
    supportedProfiles: config.supportedProfiles,
    scopes,
    showReasons: config.reasons,
    decisionMaxAgeSeconds: config.decisionMaxAgeSeconds,
  };
  const methods = methodsOf(config.serviceName, { deployment, live, ledger, clock, random, engine, hasher });
  const server = await createServer(
    serverOptions(config, methods, scopes, authenticator, { clock, random, logger, metrics }),
  );
  const ops = createOpsListener({
    serviceName: config.serviceName,
    checks: [
      { name: "store", check: () => ledger.check() },
      { name: "policy", check: async () => void engine.revision },
      { name: "issuer_keys", check: async () => requireIssuerKeys(authenticator) },
    ],
    metrics,
    logger,
    clock,
    timers,
    random,
  });
  return {
    logger,
    async listen() {
      authenticator.start();
      const opsAddress = await ops.listen(config.opsListen);
      const { port } = await server.listen(config.listen.host, config.listen.port);
      const scheme = config.tlsCert === undefined ? "http" : "https";
      return {
        url: config.publicUrl ?? `${scheme}://${hostInUrl(config.listen.host)}:${port}`,
        opsUrl: `http://${hostInUrl(config.opsListen.host)}:${opsAddress.port}`,
      };
    },
    async close() {
      const clean = await server.close(config.shutdownGraceMs);
      await ops.close();
      authenticator.close();
      await hasher.close();
      await ledger.close();
      engine.release();
      metrics.close();
      await logger.close();
      return clean;
    },
  };
}

async function loadEngine(config: ServeConfig): Promise<CompiledEngine> {
  const { keyReferences, supportedProfiles } = config;
  const loaded = await loadPolicyDirectory(config.policyDir, fileSystem, { keyReferences, supportedProfiles });
  if (loaded.problems !== undefined) throw policyRefused(loaded.problems);
  const compiled = compilePolicyBundle(loaded.bundle);
  if (compiled.problems !== undefined) throw policyRefused(compiled.problems);
  return compiled.engine;
}

function policyRefused(problems: readonly PolicyProblem[]): Error {
  return new Error(`SVC_POLICY_DIR: the policy set is refused\n${problems.map(describeProblem).join("\n")}`);
}

interface Machine {
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly logger: RootLogger;
  readonly metrics: Metrics;
}

async function openLedger({ store, ledgerOrigin }: ServeConfig, machine: Machine): Promise<ObservedLedger> {
  const { clock, random, logger, metrics } = machine;
  if (store.kind !== "sqlite") throw new Error("SVC_STORE: this build has no PostgreSQL store");
  const ledger = await openSqliteLedger({ path: store.path, originPrefix: ledgerOrigin, clock, random, logger });
  return new ObservedLedger(ledger, metrics.appendFailed);
}

function authenticatorOptions(config: ServeConfig) {
  return {
    issuer: config.oidcIssuer,
    audience: config.oidcAudience,
    claims: {
      tenant: config.tenantClaim,
      principal: config.principalClaim,
      subject: config.subjectClaim,
      scope: config.scopeClaim,
    },
    proofOfPossession: proofOfPossession(config),
  };
}

function proofOfPossession(config: ServeConfig): ProofOfPossessionRule {
  if (config.proofOfPossession !== "mtls") return { mode: "none" };
  return {
    mode: "mtls",
    headerName: `${config.headerPrefix}mtls-client-certificate`,
    format: config.forwardedCertFormat,
    trustedProxies: config.trustedProxies,
  };
}

function reportAuthentication(event: AuthenticatorEvent, logger: RootLogger, metrics: Metrics): void {
  if (event.type === "forwarded_certificate_ignored") {
    metrics.forwardedCertificateIgnored();
    logger.warn({ remote_address: event.remoteAddress }, "forwarded certificate of an untrusted peer ignored");
    return;
  }
  metrics.issuerKeysFetched(event.issuerReady);
  if (event.issuerReady) logger.debug({ detail: event.detail }, "issuer keys fetched");
  else logger.warn({ detail: event.detail }, "issuer keys not available");
}

function requireIssuerKeys(authenticator: Authenticator): void {
  const { issuerReady, detail } = authenticator.status();
  if (!issuerReady) throw new ServiceError("issuer_unavailable", detail);
}

function livePlatform(
  config: ServeConfig,
  authenticator: Authenticator,
  engine: CompiledEngine,
  ledger: ObservedLedger,
): LivePlatform {
  return {
    authMode: config.authMode,
    authConfiguration: () => ({
      mode: "oauth_client_credentials",
      proofOfPossession: config.proofOfPossession,
      oidcIssuer: config.oidcIssuer,
      oidcAudience: config.oidcAudience,
      oidcIssuerReady: authenticator.status().issuerReady,
      mtlsReady: config.proofOfPossession === "mtls",
    }),
    policy: () => ({ configured: true, reason: `Policy revision ${engine.revision} is in force.` }),
    ledger: () =>
      ledger.writable
        ? { configured: true, reason: "Records are written to the evidence ledger before they are answered." }
        : { configured: false, reason: "The record store cannot be written now." },
    managedKeyPatterns: config.keyReferences.length,
  };
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

function serverOptions(
  config: ServeConfig,
  methods: readonly ServedMethod[],
  scopes: ScopeTable,
  verifier: Authenticator,
  { clock, random, logger, metrics }: Machine,
): ServerOptions {
  const chain = createChain({
    service: config.serviceName,
    headerPrefix: config.headerPrefix,
    verifier,
    requiredScopes: scopes.requiredByRpc,
    warmUp: methods.map(({ spec }) => ({ desc: spec.method.input, sample: create(spec.method.input) })),
  });
  return {
    service: config.serviceName,
    methods,
    ...chain,
    limits: {
      maxBodyBytes: (rpc) =>
        rpc === "RegistrationService/RegisterArtifact" ? config.maxArtifactBodyBytes : config.maxBodyBytes,
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
