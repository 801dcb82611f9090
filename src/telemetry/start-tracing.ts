/** Starts tracing with the OpenTelemetry packages, which are imported only if it is on (20 MiB). */
import { ExportResultCode } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from "@opentelemetry/sdk-trace";
import { outsideConnections } from "../base/timers.ts";
import type { Logger } from "./logger.ts";
import { createBegin } from "./spans.ts";
import type { SpanOutcome, Tracing, TracingSettings } from "./tracing.ts";

export interface StartOptions {
  readonly settings: TracingSettings;
  /** Defaults of the resource; settings override them. */
  readonly resource: Readonly<Record<string, string | number>>;
  readonly version: string;
  readonly logger: Pick<Logger, "info" | "warn">;
  readonly onSpans: (outcome: SpanOutcome, count: number) => void;
}

/** Pause between log lines about the collector, in milliseconds. */
const warningPauseMs = 60_000;
/** Time for the final export if calls used up the grace period, in milliseconds. */
const leastFlushMs = 500;

export function startTracing(options: StartOptions): Tracing {
  const { settings, resource, version } = options;
  const { maxSpans, maxBatchSpans, delayMs, exportTimeoutMs } = settings.queue;
  let waiting = 0;
  const exporter = observed(otlpExporter(settings), options, (count) => {
    waiting -= count;
  });
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: maxSpans,
    maxExportBatchSize: maxBatchSpans,
    scheduledDelayMillis: delayMs,
    exportTimeoutMillis: exportTimeoutMs,
  });
  const begin = createBegin(settings, {
    resource: defaultResource().merge(resourceFromAttributes({ ...resource, ...settings.resource })),
    scope: { name: "svc-platform-api", version },
    onEnded(spans) {
      // The processor would drop them too, without counting.
      const room = maxSpans - waiting;
      const kept = spans.length <= room ? spans : spans.slice(0, room);
      if (kept.length < spans.length) options.onSpans("dropped", spans.length - kept.length);
      waiting += kept.length;
      outsideConnections(() => {
        for (const span of kept) processor.onEnd(span);
      });
    },
  });
  return {
    begin,
    async close(graceMs) {
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, Math.max(leastFlushMs, graceMs));
      await Promise.race([processor.shutdown().catch(() => {}), late.promise]);
      clearTimeout(timer);
    },
  };
}

function otlpExporter({ url, headers, timeoutMs, compression, tls }: TracingSettings): SpanExporter {
  return new OTLPTraceExporter({
    url,
    headers: { ...headers },
    timeoutMillis: timeoutMs,
    compression: compression as NonNullable<ConstructorParameters<typeof OTLPTraceExporter>[0]>["compression"] & string,
    httpAgentOptions: { keepAlive: true, ...tls },
  });
}

/** Wraps the exporter: counts spans, and logs when the collector fails and recovers. */
function observed(
  exporter: SpanExporter,
  { logger, onSpans }: StartOptions,
  onTaken: (count: number) => void,
): SpanExporter {
  let isFailing = false;
  let saidAtMs = Number.NEGATIVE_INFINITY;
  const note = (error: Error | undefined) => {
    const isNews = isFailing !== (error !== undefined);
    isFailing = error !== undefined;
    if (!isNews || (error !== undefined && performance.now() - saidAtMs < warningPauseMs)) return;
    if (error === undefined) return logger.info({}, "traces are exported again");
    saidAtMs = performance.now();
    logger.warn({ problem: problemOf(error) }, "traces cannot be exported: spans are lost");
  };
  return {
    export(spans: ReadableSpan[], done) {
      onTaken(spans.length);
      exporter.export(spans, ({ code, error }) => {
        const isExported = code === ExportResultCode.SUCCESS;
        onSpans(isExported ? "exported" : "failed", spans.length);
        note(isExported ? undefined : (error ?? new Error("unknown error")));
        // Reported above; the processor needs no error.
        done({ code: ExportResultCode.SUCCESS });
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  };
}

/** A code of the system or a status. Text of the collector is not repeated. */
function problemOf(error: Error): string {
  const { code } = error as { readonly code?: unknown };
  if (typeof code === "number") return `the collector answers ${code}`;
  return typeof code === "string" ? code : error.message.slice(0, 100);
}
