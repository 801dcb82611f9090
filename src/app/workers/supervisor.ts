/**
 * A service whose calls are served by several threads. This one, the main one, has all that there is once: the store's
 * threads, the directories of policies, the operator listener, the output of the log, and the workers themselves.
 */
import { createServer } from "node:net";
import { ServiceError } from "../../base/errors.ts";
import { createFairSemaphore } from "../../base/semaphore.ts";
import { forgetThread, localSums, sumTable } from "../../base/sums.ts";
import type { Timers } from "../../base/timers.ts";
import { inheritedEnvironment } from "../../config/load.ts";
import { type CheckResult, type ReadinessCheck, runChecks } from "../../ops/readiness.ts";
import { MetricsMerger } from "../../telemetry/merged-metrics.ts";
import type { TracingSettings } from "../../telemetry/tracing/tracing.ts";
import { openCallers } from "../callers.ts";
import type { FirstPolicy } from "../first-policy.ts";
import { type FileTexts, FollowedFiles, type FollowedName } from "../followed-files.ts";
import type { App, Machine, ServeConfig } from "../gateway.ts";
import { issuerReadiness } from "../issuers.ts";
import { bound, urlsOf } from "../listening.ts";
import { openLivePolicy } from "../live-policy.ts";
import { createOperatorSide, policyReadiness } from "../operator-side.ts";
import { openOpsViewers } from "../ops-viewers.ts";
import { policyAndStores } from "../policy-and-stores.ts";
import { followQuotas } from "../quotas.ts";
import { sessionSlots } from "../session-route.ts";
import { type OpenedStores, openStores, storeReadiness } from "../stores.ts";
import { followTls } from "../tls.ts";
import { witnessingOf } from "../witnessing.ts";
import { Fleet } from "./fleet.ts";
import { Followers } from "./followers.ts";
import { connectionsOf } from "./parts.ts";
import { toMessage } from "./protocol.ts";
import { LentSlots } from "./slots.ts";
import { WorkerThread } from "./thread.ts";

export type SupervisorMachine = Omit<Machine, "sumsOf" | "tracing"> & {
  readonly timers: Timers;
  readonly fetch: typeof globalThis.fetch;
};

/** Builds it. Rejects as `build` does, and with the reason why a worker cannot start. */
export async function buildSupervised(
  config: ServeConfig,
  workers: number,
  given: SupervisorMachine,
  { tracing, policy: begun }: { readonly tracing?: TracingSettings; readonly policy?: Promise<FirstPolicy> },
): Promise<App> {
  const { logger, metrics, timers } = given;
  let fleet: Fleet | undefined;
  const files = new FollowedFiles(config, {
    ...{ timers, logger, metrics },
    share: (what, texts) => takenByAll(fleet, what, texts),
  });
  const machine = { ...given, sumsOf: localSums, files };
  const followers = new Followers(() => fleet);
  const witnessing = witnessingOf(config, machine);
  const connections = connectionsOf(config, workers);
  const [policy, stores] = await policyAndStores(
    openLivePolicy(config, machine, { followers, ...(begun && { begun }) }),
    openStores({ ...config, storePoolSize: connections.main }, machine, witnessing?.open),
  );
  const opened: (() => Promise<void> | void)[] = [];
  const failed = Promise.withResolvers<Error>();
  const merger = new MetricsMerger();
  const sums = sumTable(workers, machine.random(new Uint8Array(8)));
  const slots = createFairSemaphore(sessionSlots);
  try {
    opened.push(() => stores.ledger.close());
    // Callers of the logs, which this thread serves.
    const callers = await openCallers(config, stores.shared, policy.engine.callerAttributes, {
      ...machine,
      onKeysChanged: (issuer) => fleet?.followKeys(issuer),
    });
    opened.push(() => callers.close());
    const { authenticator } = callers;
    opened.push(() => files.close());
    const viewers = await openOpsViewers(config, authenticator, files, timers);
    // For the workers, which go by them.
    await followTls("tls", config, machine);
    await followQuotas(config, files);
    const checks: readonly ReadinessCheck[] = [
      storeReadiness(stores),
      policyReadiness(policy),
      ...together(
        [...(witnessing === undefined ? [] : [witnessing.readiness]), ...issuerReadiness(config, authenticator)],
        () => running.checks(),
      ),
      { name: "workers", check: async () => requireListening(running), remark: () => startingRemark(running, workers) },
    ];
    const lent = new Map<number, LentSlots>();
    const running = new Fleet({
      workers,
      logger,
      merger,
      start: (index) =>
        startWorker(index, stores, () => {
          const own = new LentSlots(slots);
          lent.set(index, own);
          return own;
        }),
      forget(index) {
        forgetThread(sums, index);
        lent.get(index)?.leaveAll();
      },
      onHopeless: failed.resolve,
    });
    const startWorker = (index: number, { share }: OpenedStores, slotsOf: () => LentSlots): WorkerThread => {
      const store = share?.();
      const lentSlots = slotsOf();
      const storePoolSize = connections.ofWorkers[index] ?? 1;
      const policy = followers.offerCurrent();
      const start = {
        config: toMessage({ ...config, storePoolSize }),
        ...{ index, workers, sums, store: store?.message, policy: policy.offered, files: files.texts(), tracing },
      };
      const calls = {
        log: (lines: string) => logger.append(lines),
        readiness: () => runChecks(checks, timers),
        policyPart: (offer: number, index: number) => followers.part(offer, index),
        policyDisagrees: (revision: string) => followers.useCedar(revision),
        keysChanged(issuer: string) {
          authenticator.followKeys(issuer);
          running.followKeys(issuer, index);
        },
        takeSlot: (party: string, slot: number) => lentSlots.take(party, slot),
        leaveSlot: (slot: number) => lentSlots.leave(slot),
      };
      const thread = new WorkerThread({ start, ports: store?.ports ?? [], calls, env: inheritedEnvironment() });
      const end = () => policy.end();
      thread.built.then(end, end);
      return thread;
    };
    fleet = running;
    await running.start().catch((cause: Error) => {
      throw new Error(`SVC_WORKERS: a worker cannot start: ${cause.message}`, { cause });
    });
    opened.push(() => running.terminate());
    const ops = await createOperatorSide(config, machine, {
      checks,
      metrics: { expose: async () => merger.expose([await metrics.snapshot(), ...(await running.metrics())]) },
      logs: stores.logs,
      viewers,
    });
    return {
      logger,
      failed: failed.promise,
      reload: async () => void (await Promise.all([files.reload(), policy.reload()])),
      async listen() {
        authenticator.start();
        policy.start();
        const opsAddress = await bound("SVC_OPS_LISTEN", ops.listen(config.opsListen));
        const { host, port } = config.listen;
        await bound("SVC_LISTEN", requireFree(host, port));
        return urlsOf(config, await bound("SVC_LISTEN", running.listen(port)), opsAddress.port);
      },
      async close() {
        await policy.stop();
        const clean = await running.close(config.shutdownGraceMs);
        await ops.close();
        callers.close();
        files.close();
        await stores.ledger.close();
        policy.release();
        await logger.close();
        return clean;
      },
    };
  } catch (error) {
    for (const close of opened.reverse()) await close();
    throw error;
  }
}

/** Rejects where one that goes on does not take them: it is told again. */
async function takenByAll(fleet: Fleet | undefined, what: FollowedName, texts: FileTexts): Promise<void> {
  await Promise.all(
    (fleet?.threads ?? []).map(async (thread) => {
      const gone = thread.ended.then(() => {});
      await Promise.race([thread.peer.ask("takeFiles", what, texts), gone]);
    }),
  );
}

/** Each check holds where it holds here and in every worker. What workers found is asked for once for all of them. */
function together(
  own: readonly ReadinessCheck[],
  ofWorkers: () => Promise<readonly CheckResult[]>,
): readonly ReadinessCheck[] {
  let asked: Promise<readonly CheckResult[]> | undefined;
  const ask = () => {
    asked ??= ofWorkers().finally(() => {
      asked = undefined;
    });
    return asked;
  };
  return own.map(({ name, check, remark }) => {
    let said: string | undefined;
    return {
      name,
      async check(signal) {
        const [found] = await Promise.all([ask(), check(signal)]);
        const same = found.filter((result) => result.name === name);
        const bad = same.find(({ status }) => status === "failed");
        if (bad !== undefined) throw new ServiceError("internal", bad.reason ?? "a worker's check failed");
        said = same.find(({ reason }) => reason !== undefined)?.reason;
      },
      remark: () => remark?.() ?? said,
    };
  });
}

function requireListening({ threads }: Fleet): void {
  if (!threads.some(({ isListening }) => isListening)) throw new ServiceError("internal", "no worker listens");
}

function startingRemark({ threads }: Fleet, workers: number): string | undefined {
  const listening = threads.filter(({ isListening }) => isListening).length;
  return listening === workers ? undefined : `${workers - listening} of ${workers} workers are being replaced`;
}

/**
 * Several sockets may listen on a port that all of them share, those of another process too: two services by mistake
 * would each get a part of the calls. So the port is taken once for itself first.
 */
function requireFree(host: string, port: number): Promise<void> {
  if (port === 0) return Promise.resolve();
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve()));
  });
}
