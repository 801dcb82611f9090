/**
 * Spans of distributed traces (https://opentelemetry.io/docs/specs/otel/trace/api/). They are passed as parameters,
 * because a context that follows every promise costs every call, traced or not. Without tracing there are no spans.
 */

/** Attributes of a span: no content of requests, and no secrets. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** A part of the work for one call, or for several. No method throws. */
export interface Span {
  /** 32 hexadecimal digits (W3C Trace Context §3.2.2.3). */
  readonly traceId: string;
  /** 16 hexadecimal digits (W3C Trace Context §3.2.2.4). */
  readonly spanId: string;
  /** Starts a child span; `client` for an exchange with another process. */
  child(name: string, kind?: "internal" | "client"): Span;
  /** Setting an attribute again replaces it. */
  set(attributes: SpanAttributes): void;
  /** Ends the span, with an error if the work failed. Later calls are ignored. */
  end(error?: unknown): void;
  /** Starts a separate trace for work shared by the spans, linked with each. Undefined if none is exported. */
  shared(name: string, spans: readonly Span[]): Span | undefined;
}

/** Does the work in a child span, if there is a parent. Settles as the work does. */
export function traced<T>(
  parent: Span | undefined,
  name: string,
  work: (span: Span | undefined) => Promise<T>,
  kind?: "internal" | "client",
): Promise<T> {
  return parent === undefined ? work(undefined) : ended(parent.child(name, kind), work);
}

async function ended<T>(span: Span, work: (span: Span) => Promise<T>): Promise<T> {
  try {
    const result = await work(span);
    span.end();
    return result;
  } catch (error) {
    span.end(error ?? "failed");
    throw error;
  }
}
