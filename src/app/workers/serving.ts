/** A worker: the public side of the service in a thread of its own, with its part of what the service may use. */
import { randomFillSync } from "node:crypto";
import { systemClock } from "../../base/clock.ts";
import { bufferedRandom } from "../../base/random.ts";
import { sharedSums } from "../../base/sums.ts";
import { systemTimers } from "../../base/timers.ts";
import { isFileError } from "../../files/file-system.ts";
import { runChecks } from "../../ops/readiness.ts";
import { createLogger, type Logger, writeOnceATurn } from "../../telemetry/logger.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { openCallers } from "../callers.ts";
import { ReceivedFiles } from "../followed-files.ts";
import { followPolicy } from "../followed-policy.ts";
import { issuerReadiness } from "../issuers.ts";
import { createPublicSide } from "../public-side.ts";
import { openQuotas } from "../quotas.ts";
import { openStores } from "../stores.ts";
import { tracingOf } from "../tracing.ts";
import { logConsole, watchDefects } from "../unexpected.ts";
import { witnessingOf } from "../witnessing.ts";
import { admissionFor } from "./parts.ts";
import type { Peer } from "./peer.ts";
import { takePolicy } from "./policy-offers.ts";
import { fromMessage, type MainCalls, type WorkerCalls, type WorkerStart } from "./protocol.ts";
import { borrowedSlots } from "./slots.ts";

/** Opens it. Rejects where a part of it cannot be opened. */
export async function openWorker(start: WorkerStart, main: Peer<MainCalls, WorkerCalls>): Promise<WorkerCalls> {
  const config = fromMessage(start.config);
  const { index, workers: threads } = start;
  const lines = writeOnceATurn({ write: (text) => main.tell("log", text), flushSync: () => {} });
  const fields = { worker: index + 1 };
  const logger = createLogger({
    ...{ level: config.logLevel, serviceName: config.serviceName },
    ...{ fields, destination: lines },
  });
  logConsole(logger);
  const metrics = createMetrics({ process: "thread" });
  const files = new ReceivedFiles(start.files);
  const machine = {
    files,
    clock: systemClock,
    timers: systemTimers,
    random: bufferedRandom((bytes) => randomFillSync(bytes)),
    fetch: globalThis.fetch,
    logger,
    metrics,
    sumsOf: sharedSums(start.sums, index),
    tracing: await tracingOf(config, start.tracing, { logger, metrics, worker: index + 1 }),
  };
  const onDisagreement = (revision: string) => main.tell("policyDisagrees", revision);
  const take = (offer: number) => takePolicy((index) => main.ask("policyPart", offer, index));
  const { active, shadow, ...known } = start.policy;
  const policy = await followPolicy(
    config,
    { ...machine, onDisagreement },
    { ...known, active: await take(active), shadow: shadow === undefined ? undefined : await take(shadow) },
  );
  const witnessing = witnessingOf(config, machine);
  const { ledger, shared } = await openStores(config, machine, witnessing?.open, { threads, shared: start.store });
  const callers = await openCallers(config, shared, policy.engine.callerAttributes, {
    ...machine,
    ...{ slots: borrowedSlots(main), fileLogger: saidByMainThread, refetches: machine.sumsOf("refetches") },
    introspections: machine.sumsOf("introspections"),
    statusListFetches: machine.sumsOf("status_lists"),
    onKeysChanged: (issuer) => main.tell("keysChanged", issuer),
  });
  const { authenticator } = callers;
  const quotas = await openQuotas(config, shared, machine);
  const publicSide = await createPublicSide(config, machine, {
    ...{ policy, ledger, callers, admission: admissionFor(threads), quotas: quotas?.quotas },
    readiness: () => main.ask("readiness"),
  });
  const checks = [
    ...(witnessing === undefined ? [] : [witnessing.readiness]),
    ...issuerReadiness(config, authenticator),
  ];
  const close = async () => {
    const closingMs = performance.now();
    publicSide.announceStop();
    const clean = await publicSide.server.close(config.shutdownGraceMs);
    callers.close();
    await quotas?.close();
    await ledger.close();
    await machine.tracing?.close(config.shutdownGraceMs - (performance.now() - closingMs));
    policy.release();
    lines.handOver();
    return clean;
  };
  // The state is unknown: what is in flight may finish, and another worker takes the place of this one.
  watchDefects(logger, () => void close().finally(() => process.exit(1)));
  authenticator.start();
  return {
    async listen(port) {
      try {
        return (await publicSide.server.listen(config.listen.host, port, true)).port;
      } catch (error) {
        if (!isFileError(error, ["ENOTSUP"])) throw error;
        throw new Error("this system does not let threads share a port: SVC_WORKERS must be 1", { cause: error });
      }
    },
    preparePolicy: async (role, offer) => policy.prepare(role, await take(offer)),
    installPolicy: (role) => policy.install(role),
    useCedar: (revision) => policy.useCedar(revision),
    takeFiles: (what, texts) => files.take(what, texts),
    policyChanged: (status) => policy.changed(status),
    followKeys: (issuer) => authenticator.followKeys(issuer),
    checks: async () => (await runChecks(checks, systemTimers)).checks,
    async metrics() {
      const measured = await metrics.snapshot();
      // The lines of what was counted come before the count.
      lines.handOver();
      return measured;
    },
    close,
  };
}

/** Every thread takes up the files that settings name, and one of them says what is odd about them. */
const saidByMainThread: Pick<Logger, "warn"> = { warn() {} };
