/** Answers health checks from the service's readiness, at most once per `freshForMs`, to protect the store. */
import type { ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/grpc/health/v1/health_pb.ts";
import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import { type Timers, untilAborted } from "../../base/timers.ts";
import { callerGone } from "../../http/deadline.ts";

/** Runs the readiness checks. Never rejects. */
export type ReadinessSource = () => Promise<{
  readonly checks: readonly { readonly name: string; readonly status: "ok" | "failed" }[];
}>;

export interface HealthOptions {
  readonly readiness: ReadinessSource;
  /** Readiness checks of each service by full name; `"all"` for every one, as for the empty name. */
  readonly services: ReadonlyMap<string, readonly string[] | "all">;
  readonly clock: Clock;
  readonly timers: Timers;
}

export type HealthAnswers = ReturnType<typeof createHealth>;

/** Age up to which a readiness result is reused, in milliseconds. */
const freshForMs = 500;
/** Interval of readiness checks while a watch is open, in milliseconds. */
const watchIntervalMs = 1_000;

/**
 * Answers Check, List and Watch; the empty name stands for all services. Runs the readiness checks only on request. As
 * the protocol's definition requires, Check refuses an unknown name with `not_found`, and Watch answers it with
 * `SERVICE_UNKNOWN` and keeps the stream open. A watch shows the state at once and after each change, within
 * `watchIntervalMs`.
 */
export function createHealth(options: HealthOptions) {
  const { services, timers } = options;
  const stopping = new AbortController();
  const failedChecks = freshFailures(options);

  const statusOf = async (service: string): Promise<Status> => {
    const needs = service === "" ? "all" : services.get(service);
    if (needs === undefined) return Status.SERVICE_UNKNOWN;
    if (stopping.signal.aborted) return Status.NOT_SERVING;
    const failed = await failedChecks();
    const holds = needs === "all" ? failed.length === 0 : !needs.some((name) => failed.includes(name));
    return holds && !stopping.signal.aborted ? Status.SERVING : Status.NOT_SERVING;
  };

  const service: ServiceImpl<typeof Health> = {
    async check({ service }) {
      const status = await statusOf(service);
      if (status === Status.SERVICE_UNKNOWN) throw new ServiceError("no_route", "there is no such service");
      return { status };
    },
    async list() {
      const names = ["", ...services.keys()];
      const states = await Promise.all(names.map(async (name) => [name, { status: await statusOf(name) }] as const));
      return { statuses: Object.fromEntries(states) };
    },
    async *watch({ service }, { signal }) {
      const over = AbortSignal.any([signal, stopping.signal]);
      let sent: Status | undefined;
      while (!signal.aborted) {
        const status = await statusOf(service);
        if (sent !== status) yield { status };
        sent = status;
        if (stopping.signal.aborted) return;
        await pause(timers, over);
      }
    },
  };
  /** Reports that nothing is served from now on, to watchers too. */
  const stop = () => stopping.abort();
  return { service, stop };
}

/** Returns the names of failing checks, from the last run if it is recent. Concurrent callers share a run. */
function freshFailures({ readiness, clock }: HealthOptions): () => Promise<readonly string[]> {
  let last: { readonly atMs: number; readonly failed: Promise<readonly string[]> } | undefined;
  return () => {
    const nowMs = clock.now();
    // If the clock went back, the last result would look fresh until the clock catches up.
    if (last === undefined || nowMs < last.atMs || nowMs - last.atMs > freshForMs) {
      last = { atMs: nowMs, failed: readiness().then(({ checks }) => failedNames(checks)) };
    }
    return last.failed;
  };
}

function failedNames(checks: Awaited<ReturnType<ReadinessSource>>["checks"]): string[] {
  return checks.filter(({ status }) => status === "failed").map(({ name }) => name);
}

/** Resolves when the interval is over, or as soon as the signal aborts. */
async function pause(timers: Timers, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = timers.after(watchIntervalMs, resolve);
  await untilAborted(promise, signal, () => callerGone).catch(() => {});
  cancel();
}
