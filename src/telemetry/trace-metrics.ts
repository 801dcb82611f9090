/** Metrics of traces. */
import { Counter, type Registry } from "prom-client";
import type { SpanOutcome } from "./tracing/tracing.ts";

export interface TraceMetrics {
  /** Spans of traces were dealt with. */
  spansHandled(outcome: SpanOutcome, count: number): void;
}

/** Makes them in the registries. */
export function traceMetrics(registers: Registry[]): TraceMetrics {
  const spans = new Counter({
    name: "svc_trace_spans_total",
    help: "Spans of traces that were exported, dropped for want of room in the queue, or not taken by the collector",
    labelNames: ["result"],
    registers,
  });
  return { spansHandled: (result, count) => spans.inc({ result }, count) };
}
