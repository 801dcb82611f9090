/**
 * What health checks of callers are answered from: the service's own readiness, asked when somebody wants to know and
 * never more often than `freshForMs`, so that strangers cannot make the store work.
 */

import type { ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/grpc/health/v1/health_pb.ts";
import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Timers } from "../../base/timers.ts";

/** Whether one service can do its work now. */
export type Serving = "serving" | "not_serving";

/** Runs the readiness checks. Never rejects. */
export type ReadinessSource = () => Promise<{
  readonly checks: readonly { readonly name: string; readonly status: "ok" | "failed" }[];
}>;

export interface HealthMonitorOptions {
  readonly readiness: ReadinessSource;
  /**
   * Services by full name, each with the readiness checks that it needs; `"all"` needs every one. The overall state
   * (the empty name) needs every one.
   */
  readonly services: ReadonlyMap<string, readonly string[] | "all">;
  readonly clock: Clock;
  readonly timers: Timers;
}

export interface HealthMonitor {
  /** State of a service, or of all for the empty name; undefined where the name is not known. */
  check(service: string): Promise<Serving | undefined>;
  /** State of every service, and of all under the empty name. */
  list(): Promise<ReadonlyMap<string, Serving>>;
  /**
   * The state at once, and each time it changes, seen within `watchIntervalMs`. Ends when the signal aborts; when the
   * monitor stops it says `not_serving` and ends. A name that is not known stays undefined.
   */
  watch(service: string, signal: AbortSignal): AsyncIterable<Serving | undefined>;
  /** From now on nothing serves, and those who watch are told. */
  stop(): void;
}

/** Age up to which a readiness result is used again, in milliseconds. */
export const freshForMs = 500;
/** How often readiness is asked while somebody watches, in milliseconds. */
export const watchIntervalMs = 1_000;

/** Makes the monitor. It asks nothing while nobody does. */
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

/** Names of the checks that fail, asked anew where the last result is old. Those who ask at once share one run. */
function freshFailures({ readiness, clock }: HealthMonitorOptions): () => Promise<readonly string[]> {
  let last: { readonly atMs: number; readonly failed: Promise<readonly string[]> } | undefined;
  return () => {
    const nowMs = clock.now();
    // A clock that went back makes the last result look young for as long as it is behind.
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
 * Answers Check, List and Watch from the monitor. As the protocol's definition asks, Check refuses a name that is not known
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
