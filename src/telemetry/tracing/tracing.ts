/** Tracing as the transport and the composition root see it. What it is made of is loaded only where it is on. */
import type { Span, SpanAttributes } from "../../base/trace.ts";

/** The span of a whole call. */
export interface CallSpan extends Span {
  /** The credentials are good: from now on what the caller asks for in its trace context counts. */
  authenticated(): void;
  /**
   * The call is over. `failed` says why, where that is the server's fault or a fault of what it needs.
   *
   * @param name of low cardinality
   */
  finish(name: string, attributes: SpanAttributes, failed?: string): void;
  /** The call is over, and is not to be traced. */
  drop(): void;
}

export interface Tracing {
  /**
   * Begins the span of a call, a part of the caller's trace where its headers have a context (W3C Trace Context). One that
   * is malformed is passed over, as the specification says. Baggage is never read.
   *
   * @param headerValues every value of a request header
   * @param waitedMs since the call came in
   */
  begin(headerValues: (name: string) => readonly string[], waitedMs: number): CallSpan;
  /** Exports what waits, for so long at most; what is left then is given up. Does not reject. */
  close(graceMs: number): Promise<void>;
}

/** Where traces go and which of them, as the standard's environment variables say. */
export interface TracingSettings {
  /** Of the collector: OTLP/HTTP with protobuf. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly compression: "gzip" | "none";
  /** PEM texts. */
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  /** Attributes of the service, its name where it has one for traces. */
  readonly resource: Readonly<Record<string, string>>;
  readonly sampler: {
    /** Of the traces that begin here, or whose callers' wishes do not count: 0 to 1. */
    readonly ratio: number;
    /** Whether an authenticated caller's own decision counts. */
    readonly isParentBased: boolean;
  };
  /** Whether trace context of callers is read at all. */
  readonly readsContext: boolean;
  readonly queue: {
    readonly maxSpans: number;
    readonly maxBatchSpans: number;
    readonly delayMs: number;
    readonly exportTimeoutMs: number;
  };
}

/** Spans that were dealt with. `dropped`: there was no room for them; `failed`: the collector did not take them. */
export type SpanOutcome = "exported" | "dropped" | "failed";
