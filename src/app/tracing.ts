/** Traces of a service. */
import { randomUUID } from "node:crypto";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Tracing, TracingSettings } from "../telemetry/tracing/tracing.ts";
import { programVersion, type ServeConfig } from "./gateway.ts";

/** Starts it; undefined where there are no settings, and then nothing of it is loaded. */
export async function tracingOf(
  { serviceName }: ServeConfig,
  settings: TracingSettings | undefined,
  { logger, metrics }: { readonly logger: Logger; readonly metrics: Metrics },
): Promise<Tracing | undefined> {
  if (settings === undefined) return undefined;
  const { startTracing } = await import("../telemetry/tracing/start.ts");
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
