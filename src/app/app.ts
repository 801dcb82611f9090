/** The composition root: turns a configuration into a running service. */
import { randomFillSync } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import { systemClock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import { bufferedRandom } from "../base/random.ts";
import { systemTimers, type Timers } from "../base/timers.ts";
import { type FixedLimits, fixedLimits } from "../config/limits.ts";
import type { ConfigFor } from "../config/uses.ts";
import { runChecks } from "../ops/readiness.ts";
import { createLogger, type RootLogger } from "../telemetry/logger.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import type { TracingSettings } from "../telemetry/tracing/tracing.ts";
import type { AdmissionLimits } from "../transport/admission/admission.ts";
import { openCallers } from "./callers.ts";
import { watchKeyFiles } from "./expiries.ts";
import type { FirstPolicy } from "./first-policy.ts";
import { FollowedFiles } from "./followed-files.ts";
import { type App, buildInfo } from "./gateway.ts";
import { issuerReadiness } from "./issuers.ts";
import { bound, urlsOf } from "./listening.ts";
import { openLivePolicy } from "./live-policy.ts";
import { createOperatorSide, policyReadiness } from "./operator-side.ts";
import { openOpsViewers } from "./ops-viewers.ts";
import { policyAndStores } from "./policy-and-stores.ts";
import { createPublicSide } from "./public-side.ts";
import { openQuotas } from "./quotas.ts";
import { openStores, storeReadiness } from "./stores.ts";
import { tracingOf } from "./tracing.ts";
import { witnessingOf } from "./witnessing.ts";

/** What the machine provides. Tests put their own in its place. */
export interface Overrides {
  readonly clock?: Clock;
  readonly timers?: Timers;
  readonly random?: RandomFill;
  readonly fetch?: typeof globalThis.fetch;
  readonly logger?: RootLogger;
  readonly admission?: AdmissionLimits;
  readonly limits?: Partial<FixedLimits>;
  /** Where traces go; nowhere where absent. */
  readonly tracing?: TracingSettings;
  /** What was begun of the policies that it starts with, while its code was loaded. */
  readonly policy?: Promise<FirstPolicy>;
}

/** Builds the service. Rejects with every problem of the policy directory, or where the store cannot be opened. */
export async function build(settings: ConfigFor<"serve">, overrides: Overrides = {}): Promise<App> {
  const config = { ...settings, ...fixedLimits, ...overrides.limits };
  const clock = overrides.clock ?? systemClock;
  const timers = overrides.timers ?? systemTimers;
  const random = overrides.random ?? bufferedRandom((bytes) => randomFillSync(bytes));
  const logger = overrides.logger ?? createLogger({ level: config.logLevel, serviceName: config.serviceName });
  const metrics = createMetrics({ process: true, build: buildInfo, clock });
  watchKeyFiles(config, metrics);
  const fetch = overrides.fetch ?? globalThis.fetch;
  const files = new FollowedFiles(config, { timers, logger, metrics });
  const tracing = await tracingOf(config, overrides.tracing, { logger, metrics });
  const machine = { clock, timers, random, fetch, logger, metrics, tracing, files };
  const witnessing = witnessingOf(config, machine);
  const [policy, { ledger, logs, shared, stuck }] = await policyAndStores(
    openLivePolicy(config, machine, overrides.policy),
    openStores(config, machine, witnessing?.open),
  );
  const giveUp = async (error: unknown) => {
    files.close();
    await ledger.close();
    throw error;
  };
  const callers = await openCallers(config, shared, policy.engine.callerAttributes, machine).catch(giveUp);
  const { authenticator } = callers;
  const viewers = await openOpsViewers(config, authenticator, files, timers).catch(giveUp);
  const quotas = await openQuotas(config, shared, machine).catch(giveUp);
  const checks = [
    storeReadiness({ ledger, stuck }),
    policyReadiness(policy),
    ...(witnessing === undefined ? [] : [witnessing.readiness]),
    ...issuerReadiness(config, authenticator),
  ];
  const readiness = () => runChecks(checks, timers);
  const { admission } = overrides;
  const publicSide = await createPublicSide(config, machine, {
    ...{ policy, ledger, callers, readiness, admission },
    quotas: quotas?.quotas,
  });
  const { server } = publicSide;
  const ops = await createOperatorSide(config, machine, { checks, metrics, logs, viewers, hold: server.admit });
  return {
    logger,
    reload: async () => void (await Promise.all([files.reload(), policy.reload()])),
    async listen() {
      authenticator.start();
      policy.start();
      const opsAddress = await bound("SVC_OPS_LISTEN", ops.listen(config.opsListen));
      const { port } = await bound("SVC_LISTEN", server.listen(config.listen.host, config.listen.port));
      return urlsOf(config, port, opsAddress.port);
    },
    async close() {
      const closingMs = performance.now();
      publicSide.announceStop();
      await policy.stop();
      const clean = await publicSide.close(config.shutdownGraceMs);
      await ops.close();
      callers.close();
      files.close();
      await quotas?.close();
      await ledger.close();
      await tracing?.close(config.shutdownGraceMs - (performance.now() - closingMs));
      policy.release();
      await logger.close();
      return clean;
    },
  };
}
