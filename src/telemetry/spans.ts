/**
 * Spans of calls under way. The service decides on export after authentication or refusal, so that the trace context of
 * an unauthenticated caller cannot decide it. Until then it keeps the spans in the form that is exported, without a
 * copy.
 */
import {
  type Attributes,
  type HrTime,
  type Link,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  type SpanStatus,
  SpanStatusCode,
  TraceFlags,
} from "@opentelemetry/api";
import { type InstrumentationScope, parseTraceParent, TraceState } from "@opentelemetry/core";
import type { Resource } from "@opentelemetry/resources";
import {
  RandomIdGenerator,
  type ReadableSpan,
  SamplingDecision,
  type TimedEvent,
  TraceIdRatioBasedSampler,
} from "@opentelemetry/sdk-trace";
import { ServiceError } from "../base/errors.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import type { Span, SpanAttributes } from "../base/trace.ts";
import type { CallSpan, Tracing, TracingSettings } from "./tracing.ts";

/** Bound of the spans of one call, without those that begin another trace. A call has about five. */
const maxSpansPerTrace = 64;
/** Default of the OpenTelemetry SDK specification. */
const maxLinks = 128;

const ids = new RandomIdGenerator();

/** Attributes of the service, and the receiver of its spans. */
interface SpanSink {
  readonly resource: Resource;
  readonly scope: InstrumentationScope;
  /** Called with ended spans that are to be exported. */
  readonly onEnded: (spans: readonly ReadableSpan[]) => void;
}

/** Whether a trace is exported, by whether the caller was authenticated. */
interface Decisions {
  readonly traceId: string;
  readonly ifStranger: boolean;
  readonly ifCaller: boolean;
}

/** State that the spans of a call share. */
class Trace {
  readonly sink: SpanSink;
  readonly traceId: string;
  readonly #decisions: Decisions;
  /** When the call came in, in milliseconds: wall clock, and monotonic clock. */
  readonly #epochMs: number;
  readonly #startedMs: number;
  /** Ended spans that await the decision on export. */
  #ended: ReadableSpan[] = [];
  #spans = 0;
  /** Whether the spans are exported; undefined until that is decided. */
  isExported: boolean | undefined;

  constructor(sink: SpanSink, decisions: Decisions, waitedMs: number) {
    this.sink = sink;
    this.traceId = decisions.traceId;
    this.#decisions = decisions;
    this.#epochMs = Date.now() - waitedMs;
    this.#startedMs = performance.now() - waitedMs;
  }

  elapsedMs(): number {
    return performance.now() - this.#startedMs;
  }

  time(elapsedMs: number): HrTime {
    return hrTime(this.#epochMs + elapsedMs);
  }

  takesSpan(): boolean {
    this.#spans += 1;
    return this.isExported !== false && this.#spans < maxSpansPerTrace;
  }

  decide(isCaller: boolean): void {
    if (this.isExported !== undefined) return;
    const { ifCaller, ifStranger } = this.#decisions;
    this.settle(isCaller ? ifCaller : ifStranger);
  }

  ended(span: ReadableSpan): void {
    if (this.isExported === undefined) this.#ended.push(span);
    else if (this.isExported) this.sink.onEnded([span]);
  }

  settle(isExported: boolean): void {
    this.isExported = isExported;
    if (isExported && this.#ended.length > 0) this.sink.onEnded(this.#ended);
    this.#ended = [];
  }
}

/** A span that is exported without conversion, if its trace is. */
class RecordedSpan implements CallSpan, ReadableSpan {
  readonly traceId: string;
  readonly spanId = ids.generateSpanId();
  name: string;
  readonly kind: SpanKind;
  readonly parentSpanContext?: SpanContext;
  readonly attributes: Attributes = {};
  readonly links: Link[] = [];
  readonly events: TimedEvent[] = [];
  status: SpanStatus = { code: SpanStatusCode.UNSET };
  ended = false;
  readonly droppedAttributesCount = 0;
  readonly droppedEventsCount = 0;
  droppedLinksCount = 0;
  readonly #trace: Trace;
  readonly #startMs: number;
  #endMs = 0;
  readonly #context: SpanContext;

  constructor(trace: Trace, name: string, kind: SpanKind, parent: SpanContext | undefined, startMs: number) {
    this.#trace = trace;
    this.traceId = trace.traceId;
    this.name = name;
    this.kind = kind;
    if (parent !== undefined) this.parentSpanContext = parent;
    this.#startMs = startMs;
    const { traceId, spanId } = this;
    const traceState = parent?.traceState;
    this.#context = { traceId, spanId, traceFlags: TraceFlags.SAMPLED, ...(traceState && { traceState }) };
  }

  get startTime(): HrTime {
    return this.#trace.time(this.#startMs);
  }

  get endTime(): HrTime {
    return this.#trace.time(this.#endMs);
  }

  get duration(): HrTime {
    return hrTime(this.#endMs - this.#startMs);
  }

  get resource(): Resource {
    return this.#trace.sink.resource;
  }

  get instrumentationScope(): InstrumentationScope {
    return this.#trace.sink.scope;
  }

  readonly spanContext = (): SpanContext => this.#context;

  child(name: string, kind: "internal" | "client" = "internal"): Span {
    const trace = this.#trace;
    if (!trace.takesSpan()) return new UnrecordedSpan(this.traceId);
    const spanKind = kind === "client" ? SpanKind.CLIENT : SpanKind.INTERNAL;
    return new RecordedSpan(trace, name, spanKind, this.#context, trace.elapsedMs());
  }

  set(attributes: SpanAttributes): void {
    if (!this.ended) Object.assign(this.attributes, attributes);
  }

  end(error?: unknown): void {
    if (this.ended) return;
    this.#endMs = this.#trace.elapsedMs();
    if (error !== undefined) this.#fail(typeof error === "string" ? error : reasonOf(error));
    this.ended = true;
    this.#trace.ended(this);
  }

  shared(name: string, spans: readonly Span[]): Span | undefined {
    const exported = spans.filter((span) => span instanceof RecordedSpan && span.#trace.isExported === true);
    if (exported.length === 0) return undefined;
    const decisions = { traceId: ids.generateTraceId(), ifStranger: true, ifCaller: true };
    const trace = new Trace(this.#trace.sink, decisions, 0);
    trace.decide(true);
    const span = new RecordedSpan(trace, name, SpanKind.INTERNAL, undefined, 0);
    for (const one of exported as RecordedSpan[]) {
      span.#link(one.#context);
      one.#link(span.#context);
    }
    return span;
  }

  authenticated(): void {
    this.#trace.decide(true);
  }

  finish(name: string, attributes: SpanAttributes, failed?: string): void {
    this.name = name;
    this.set(attributes);
    this.end(failed);
    this.#trace.decide(false);
  }

  drop(): void {
    this.#trace.settle(false);
  }

  #fail(reason: string): void {
    this.status = { code: SpanStatusCode.ERROR, message: reason };
    this.attributes["error.type"] ??= reason;
  }

  #link(context: SpanContext): void {
    if (this.links.length < maxLinks) this.links.push({ context });
    else this.droppedLinksCount += 1;
  }
}

/** A span that is not exported. It has ids for the log, and no children. */
class UnrecordedSpan implements CallSpan {
  readonly traceId: string;
  #spanId: string | undefined;

  constructor(traceId: string) {
    this.traceId = traceId;
  }

  get spanId(): string {
    this.#spanId ??= ids.generateSpanId();
    return this.#spanId;
  }

  child(): Span {
    return this;
  }

  shared(name: string, spans: readonly Span[]): Span | undefined {
    return spans.find((span) => span instanceof RecordedSpan)?.shared(name, spans);
  }

  set(): void {}
  end(): void {}
  authenticated(): void {}
  finish(): void {}
  drop(): void {}
}

/** Returns a reason of a closed table, or the name of a class: never text that a caller sent. */
function reasonOf(error: unknown): string {
  if (error instanceof ServiceError) return error.reason;
  return error instanceof Error ? error.name : "unknown";
}

function hrTime(ms: number): HrTime {
  const seconds = Math.trunc(ms / 1000);
  return [seconds, Math.trunc((ms - seconds * 1000) * 1e6)];
}

/** Makes the function that begins the spans of calls. */
export function createBegin(
  { sampler: { ratio, isParentBased }, readsContext }: Pick<TracingSettings, "sampler" | "readsContext">,
  sink: SpanSink,
): Tracing["begin"] {
  const sampler = new TraceIdRatioBasedSampler(ratio);
  const isSampled = (traceId: string) =>
    sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED;
  return (inbound, waitedMs) => {
    const parent = readsContext ? contextOf(inbound) : undefined;
    const traceId = parent?.traceId ?? ids.generateTraceId();
    // Sampling by the caller's trace id would let the caller choose what is sampled.
    const ifStranger = isSampled(parent === undefined ? traceId : ids.generateTraceId());
    let ifCaller = ifStranger;
    if (parent !== undefined)
      ifCaller = isParentBased ? (parent.traceFlags & TraceFlags.SAMPLED) !== 0 : isSampled(traceId);
    if (!ifStranger && !ifCaller) return new UnrecordedSpan(traceId);
    const trace = new Trace(sink, { traceId, ifStranger, ifCaller }, waitedMs);
    return new RecordedSpan(trace, "", SpanKind.SERVER, parent, 0);
  };
}

/** Reads the caller's context; undefined if it is absent or malformed (W3C Trace Context §3.2, §3.3). */
function contextOf(inbound: InboundRequest): SpanContext | undefined {
  const [traceparent, ...others] = inbound.headerValues("traceparent");
  if (traceparent === undefined || others.length > 0) return undefined;
  const parsed = parseTraceParent(traceparent);
  if (parsed === null) return undefined;
  const tracestate = inbound.headerValues("tracestate");
  return {
    ...parsed,
    isRemote: true,
    // At most 512 characters of 32 members; the rest is dropped.
    ...(tracestate.length > 0 && { traceState: new TraceState(tracestate.join(",")) }),
  };
}
