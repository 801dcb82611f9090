/** Answers health checks from the service's readiness, at most once per `freshForMs`, to protect the store. */
import type { ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/grpc/health/v1/health_pb.ts";
import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Timers } from "../../base/timers.ts";

type Serving = "serving" | "not_serving";

/** Runs the readiness checks. Never rejects. */
export type ReadinessSource = () => Promise<{
  readonly checks: readonly { readonly name: string; readonly status: "ok" | "failed" }[];
}>;

export interface HealthMonitorOptions {
  readonly readiness: ReadinessSource;
  /** Readiness checks of each service by full name; `"all"` for every one, as for the empty name. */
  readonly services: ReadonlyMap<string, readonly string[] | "all">;
  readonly clock: Clock;
  readonly timers: Timers;
}

export interface HealthMonitor {
  /** State of a service, or of all for the empty name; undefined if the name is unknown. */
  check(service: string): Promise<Serving | undefined>;
  /** State of every service; the empty name is the state of all. */
  list(): Promise<ReadonlyMap<string, Serving>>;
  /**
   * Yields the state at once and after each change, within `watchIntervalMs`. Ends when the signal aborts; when the
   * monitor stops it yields `not_serving` and ends. An unknown name yields undefined.
   */
  watch(service: string, signal: AbortSignal): AsyncIterable<Serving | undefined>;
  /** Reports `not_serving` from now on, to watchers too. */
  stop(): void;
}

/** Age up to which a readiness result is reused, in milliseconds. */
const freshForMs = 500;
/** Interval of readiness checks while a watch is open, in milliseconds. */
const watchIntervalMs = 1_000;

/** Creates the monitor. It runs checks only on request. */
export function createHealthMonitor(options: HealthMonitorOptions): HealthMonitor {
  const { services, timers } = options;
  const stopping = new AbortController();
  const failedChecks = freshFailures(options);

  const check = async (service: string): Promise<Serving | undefined> => {
    const needs = service === "" ? "all" : services.get(service);
    if (needs === undefined) return undefined;
    if (stopping.signal.aborted) return "not_serving";
    const failed = await failedChecks();
    const holds = needs === "all" ? failed.length === 0 : !needs.some((name) => failed.includes(name));
    return holds && !stopping.signal.aborted ? "serving" : "not_serving";
  };

  return {
    check,
    async list() {
      const names = ["", ...services.keys()];
      const states = await Promise.all(
        names.map(async (name) => [name, (await check(name)) ?? "not_serving"] as const),
      );
      return new Map(states);
    },
    async *watch(service, signal) {
      const over = AbortSignal.any([signal, stopping.signal]);
      let sent: { readonly serving: Serving | undefined } | undefined;
      while (!signal.aborted) {
        const serving = await check(service);
        if (sent === undefined || sent.serving !== serving) yield serving;
        sent = { serving };
        if (stopping.signal.aborted) return;
        await pause(timers, over);
      }
    },
    stop: () => stopping.abort(),
  };
}

/** Returns the names of failing checks, from the last run if it is recent. Concurrent callers share a run. */
function freshFailures({ readiness, clock }: HealthMonitorOptions): () => Promise<readonly string[]> {
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
function pause(timers: Timers, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      cancel();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const cancel = timers.after(watchIntervalMs, done);
    signal.addEventListener("abort", done, { once: true });
  });
}

/**
 * Answers Check, List and Watch from the monitor. As the protocol's definition requires, Check refuses an unknown name
 * with `not_found`, and Watch answers it with `SERVICE_UNKNOWN` and keeps the stream open.
 */
export function createHealthService(monitor: HealthMonitor): ServiceImpl<typeof Health> {
  return {
    async check({ service }) {
      const serving = await monitor.check(service);
      if (serving === undefined) throw new ServiceError("no_route", "there is no such service");
      return { status: statusOf(serving) };
    },
    async list() {
      const states = [...(await monitor.list())].map(([name, serving]) => [name, { status: statusOf(serving) }]);
      return { statuses: Object.fromEntries(states) };
    },
    async *watch({ service }, { signal }) {
      for await (const serving of monitor.watch(service, signal)) yield { status: statusOf(serving) };
    },
  };
}

function statusOf(serving: Serving | undefined): Status {
  if (serving === undefined) return Status.SERVICE_UNKNOWN;
  return serving === "serving" ? Status.SERVING : Status.NOT_SERVING;
}
