/** `grpc.health.v1.Health`: the probe that orchestrators, proxies and gRPC clients already have. */
import type { ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/grpc/health/v1/health_pb.ts";
import { ServiceError } from "../../base/errors.ts";
import type { HealthMonitor, Serving } from "./health-monitor.ts";

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
