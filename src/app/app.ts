/** The composition root: turns a configuration into a running service. */
import { randomUUID } from "node:crypto";
import { format } from "node:util";
import { type Clock, systemClock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { bufferedRandom, type RandomFill, systemRandom } from "../base/ids.ts";
import { systemTimers, type Timers } from "../base/timers.ts";
import type { ConfigFor } from "../config/config.ts";
import { type FixedLimits, fixedLimits } from "../config/settings.ts";
import type { AdmissionLimits } from "../http/admission.ts";
import { Connection } from "../http/connection.ts";
import { runChecks } from "../ops/readiness.ts";
import { createLogger, type Logger, type RootLogger } from "../telemetry/logger.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import type { Tracing, TracingSettings } from "../telemetry/tracing.ts";
import { issuerReadiness, openCallers } from "./callers.ts";
import type { FirstPolicy } from "./first-policy.ts";
import { FollowedFiles, watchKeyFiles } from "./followed-files.ts";
import { type App, buildInfo, programVersion, type ServeConfig } from "./gateway.ts";
import { logInForce, openLivePolicy } from "./live-policy.ts";
import { createOperatorSide, openOpsViewers, policyReadiness } from "./operator-side.ts";
import { createPublicSide, openQuotas } from "./public-side.ts";
import { openStores, storeReadiness, witnessingOf } from "./stores.ts";

/** The machine's facilities, which tests replace. */
export interface Overrides {
  readonly clock?: Clock;
  readonly timers?: Timers;
  readonly random?: RandomFill;
  readonly fetch?: typeof globalThis.fetch;
  readonly logger?: RootLogger;
  readonly admission?: AdmissionLimits;
  /** Issues tokens on the explorer's page of a development stack. */
  readonly explorerToken?: () => Promise<string>;
  readonly limits?: Partial<FixedLimits>;
  /** Destination of traces; none if absent. */
  readonly tracing?: TracingSettings;
  /** The first policy, if reading began while the code was loaded. */
  readonly policy?: Promise<FirstPolicy>;
}

/** Builds the service. Rejects with every problem of the policy directory, or if the store cannot be opened. */
export async function build(settings: ConfigFor<"serve">, overrides: Overrides = {}): Promise<App> {
  const config = { ...settings, ...fixedLimits, ...overrides.limits };
  const clock = overrides.clock ?? systemClock;
  const timers = overrides.timers ?? systemTimers;
  const random = overrides.random ?? bufferedRandom(systemRandom);
  const logger = overrides.logger ?? createLogger({ level: config.logLevel, serviceName: config.serviceName });
  const metrics = createMetrics({ process: true, build: buildInfo, clock });
  watchKeyFiles(config, metrics);
  const fetch = overrides.fetch ?? globalThis.fetch;
  const files = new FollowedFiles(config, { timers, logger, metrics });
  const tracing = await tracingOf(config, overrides.tracing, { logger, metrics });
  const machine = { clock, timers, random, fetch, logger, metrics, tracing, files };
  const witnessing = witnessingOf(config, machine);
  const openingPolicy = openLivePolicy(config, machine, overrides.policy);
  // It may fail while the store is opened.
  openingPolicy.catch(() => {});
  const { ledger, shared, stuck } = await openStores(config, machine, witnessing?.open).catch(
    async (error: unknown) => {
      // Problems of the policies are reported first.
      await openingPolicy;
      throw error;
    },
  );
  const giveUp = async (error: unknown) => {
    files.close();
    await ledger.close();
    throw error;
  };
  const policy = await openingPolicy.catch(giveUp);
  await policy.keepIn(ledger).catch(giveUp);
  const callers = await openCallers(config, shared, policy.callerAttributes, machine).catch(giveUp);
  const { authenticator } = callers;
  const viewers = await openOpsViewers(config, authenticator, machine).catch(giveUp);
  const quotas = await openQuotas(shared, machine).catch(giveUp);
  const checks = [
    storeReadiness({ ledger, stuck }),
    policyReadiness(policy),
    ...(witnessing === undefined ? [] : [witnessing.readiness]),
    ...issuerReadiness(config, authenticator),
  ];
  const readiness = () => runChecks(checks, timers);
  const { admission, explorerToken } = overrides;
  const publicSide = await createPublicSide(config, machine, {
    ...{ policy, ledger, callers, readiness, quotas, admission, explorerToken },
  });
  const { server } = publicSide;
  const ops = await createOperatorSide(config, machine, {
    ...{ checks, logs: ledger, policy, viewers, hold: server.admit },
  });
  return {
    logger,
    reload: async () => void (await Promise.all([files.reload(), policy.directory.reload()])),
    async listen() {
      authenticator.start();
      policy.directory.start();
      const opsAddress = await bound("SVC_OPS_LISTEN", ops.listen(config.opsListen));
      const { port } = await bound("SVC_LISTEN", server.listen(config.listen.host, config.listen.port));
      logInForce(policy.revision, machine);
      return urlsOf(config, port, opsAddress.port);
    },
    async close() {
      const closingMs = performance.now();
      publicSide.announceStop();
      await policy.directory.stop();
      const clean = await publicSide.close(config.shutdownGraceMs);
      await ops.close();
      authenticator.close();
      files.close();
      await quotas?.close();
      await ledger.close();
      await tracing?.close(config.shutdownGraceMs - (performance.now() - closingMs));
      await logger.close();
      return clean;
    },
  };
}

/** Base URLs of both listeners, for their ports. */
function urlsOf(config: ServeConfig, port: number, opsPort: number): { readonly url: string; readonly opsUrl: string } {
  const scheme = config.tlsCert === undefined ? "http" : "https";
  return {
    url: config.publicUrl ?? `${scheme}://${hostInUrl(config.listen.host)}:${port}`,
    opsUrl: `${config.opsTlsCert === undefined ? "http" : "https"}://${hostInUrl(config.opsListen.host)}:${opsPort}`,
  };
}

/**
 * Resolves with the address, or rejects with an error that names the setting. The system's message names the address
 * and the problem.
 */
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

/** Starts tracing; undefined without settings, and then its code is not loaded. */
async function tracingOf(
  { serviceName }: ServeConfig,
  settings: TracingSettings | undefined,
  { logger, metrics }: { readonly logger: Logger; readonly metrics: Metrics },
): Promise<Tracing | undefined> {
  if (settings === undefined) return undefined;
  const { startTracing } = await import("../telemetry/start-tracing.ts");
  return startTracing({
    settings,
    resource: {
      "service.name": serviceName,
      "service.version": programVersion,
      "service.instance.id": randomUUID(),
    },
    version: programVersion,
    logger,
    onSpans: metrics.spansHandled,
  });
}

// Unexpected errors, and the console output of libraries.

/**
 * A defect in the work for one connection ends that connection. A refusal in an unhandled promise rejection is the
 * answer to one call, even if work shared by several calls rejects it later: it is logged, and the service continues.
 * After any other defect the state is unknown, so `stop` is called. Returns a function that ends the watch.
 */
export function watchDefects(logger: Logger, stop: () => void): () => void {
  const onDefect = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin) => {
    const connection = Connection.current();
    if (connection !== undefined) return connection.fail(error);
    if (origin === "unhandledRejection" && error instanceof ServiceError)
      return logger.error({ err: error }, "unexpected error: a refusal reached no caller");
    logger.fatal({ err: error }, "unexpected error: stopping");
    stop();
  };
  process.on("uncaughtException", onDefect);
  return () => process.off("uncaughtException", onDefect);
}

/**
 * Libraries print to the console, with stack traces, about events that any caller can cause, such as not waiting for an
 * answer. The call's log line covers these, and standard output has JSON lines only.
 */
export function logConsole(logger: Logger): void {
  const debug = (...given: unknown[]) => logger.debug({}, format(...given));
  Object.assign(globalThis.console, { log: debug, info: debug, warn: debug, error: debug });
}
