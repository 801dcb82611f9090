/** How a trace begins, or goes on from its caller's, and which traces are exported. */
import { ROOT_CONTEXT, type SpanContext, TraceFlags } from "@opentelemetry/api";
import { parseTraceParent, TraceState } from "@opentelemetry/core";
import { SamplingDecision, TraceIdRatioBasedSampler } from "@opentelemetry/sdk-trace";
import { callSpan, ids, type SpanSink } from "./spans.ts";
import type { Tracing, TracingSettings } from "./tracing.ts";

/** Makes what begins the spans of calls. */
export function createBegin(
  { sampler: { ratio, isParentBased }, readsContext }: Pick<TracingSettings, "sampler" | "readsContext">,
  sink: SpanSink,
): Tracing["begin"] {
  const sampler = new TraceIdRatioBasedSampler(ratio);
  const isSampled = (traceId: string) =>
    sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED;
  return (headerValues, waitedMs) => {
    const parent = readsContext ? contextOf(headerValues) : undefined;
    if (parent === undefined) {
      const traceId = ids.generateTraceId();
      const sampled = isSampled(traceId);
      return callSpan(sink, { traceId, ifStranger: sampled, ifCaller: sampled }, undefined, waitedMs);
    }
    const { traceId, traceFlags } = parent;
    const isWanted = (traceFlags & TraceFlags.SAMPLED) !== 0;
    // Whoever chooses the id would choose what is sampled.
    const ifStranger = isSampled(ids.generateTraceId());
    const ifCaller = isParentBased ? isWanted : isSampled(traceId);
    return callSpan(sink, { traceId, ifStranger, ifCaller }, parent, waitedMs);
  };
}

/** The caller's context; undefined where there is none, or it is malformed (W3C Trace Context §3.2, §3.3). */
function contextOf(headerValues: (name: string) => readonly string[]): SpanContext | undefined {
  const [traceparent, ...others] = headerValues("traceparent");
  if (traceparent === undefined || others.length > 0) return undefined;
  const parsed = parseTraceParent(traceparent);
  if (parsed === null) return undefined;
  const tracestate = headerValues("tracestate");
  return {
    ...parsed,
    isRemote: true,
    // At most 512 characters of 32 members: what is more is passed over.
    ...(tracestate.length > 0 && { traceState: new TraceState(tracestate.join(",")) }),
  };
}
