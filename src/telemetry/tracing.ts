/** Tracing for the transport and the composition root. The implementation is loaded only if tracing is on. */
import type { InboundRequest } from "../base/inbound-request.ts";
import type { Span, SpanAttributes } from "../base/trace.ts";

export interface CallSpan extends Span {
  /** The credentials are good: the caller's trace context counts from now on. */
  authenticated(): void;
  /**
   * Ends the call. `failed` is the cause, if it is the fault of the server or its dependencies.
   *
   * @param name of low cardinality
   */
  finish(name: string, attributes: SpanAttributes, failed?: string): void;
  /** Ends the call without a trace. */
  drop(): void;
}

export interface Tracing {
  /**
   * Starts the span of a call, within the caller's trace if its headers have a context (W3C Trace Context). A malformed
   * one is ignored, as the specification requires. Baggage is never read.
   *
   * @param waitedMs since the call came in
   */
  begin(inbound: InboundRequest, waitedMs: number): CallSpan;
  /** Exports waiting spans for at most this time, and drops the rest. Does not reject. */
  close(graceMs: number): Promise<void>;
}

/** Settings of trace export, from the standard environment variables. */
export interface TracingSettings {
  /** URL of the collector: OTLP/HTTP with protobuf. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly compression: "gzip" | "none";
  /** PEM texts. */
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  /** Attributes of the service, including its name for traces if there is one. */
  readonly resource: Readonly<Record<string, string>>;
  readonly sampler: {
    /** Share of exported traces, 0 to 1, among those that start here or whose callers do not decide. */
    readonly ratio: number;
    /** Whether an authenticated caller decides whether its trace is sampled. */
    readonly isParentBased: boolean;
  };
  readonly readsContext: boolean;
  readonly queue: {
    readonly maxSpans: number;
    readonly maxBatchSpans: number;
    readonly delayMs: number;
    readonly exportTimeoutMs: number;
  };
}

/** `dropped`: the queue was full; `failed`: the collector did not accept them. */
export type SpanOutcome = "exported" | "dropped" | "failed";
