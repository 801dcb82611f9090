/**
 * Starts tracing with the OpenTelemetry packages. Imported only where it is on: they take 20 MiB, and a moment to load.
 */
import { ExportResultCode } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from "@opentelemetry/sdk-trace";
import { outsideConnections } from "../../base/connection.ts";
import type { Logger } from "../logger.ts";
import { createBegin } from "./spans.ts";
import type { SpanOutcome, Tracing, TracingSettings } from "./tracing.ts";

export interface StartOptions {
  readonly settings: TracingSettings;
  /** What the resource says where the settings do not. */
  readonly resource: Readonly<Record<string, string | number>>;
  readonly version: string;
  readonly logger: Pick<Logger, "info" | "warn">;
  /** Counts spans by what became of them. */
  readonly onSpans: (outcome: SpanOutcome, count: number) => void;
}

/** Lines about the collector, at most one in so many milliseconds: it may come and go. */
const warningPauseMs = 60_000;
/** Left for the export where the calls took all of the grace, in milliseconds. */
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
      // The processor would drop them as well, and tell nobody.
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

/** The exporter, with a count of what became of spans, and a line when the collector fails and when it is back. */
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
        // The processor has nobody else to tell.
        done({ code: ExportResultCode.SUCCESS });
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  };
}

/** In a few words: a code of the system's, or a status. What the collector says is not repeated. */
function problemOf(error: Error): string {
  const { code } = error as { readonly code?: unknown };
  if (typeof code === "number") return `the collector answers ${code}`;
  return typeof code === "string" ? code : error.message.slice(0, 100);
}
