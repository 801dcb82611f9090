/**
 * Spans of distributed traces (https://opentelemetry.io/docs/specs/otel/trace/api/), as those see them who do the work.
 * They are handed on as parameters: a context that follows every promise by itself costs every call, traced or not. Where
 * nothing is traced there is no span, and nothing to pay.
 */

/** What is said of a span: nothing of a request's, and no secret. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** A part of the work for a call, or for several together. No method throws. */
export interface Span {
  /** 32 hexadecimal digits (W3C Trace Context §3.2.2.3). */
  readonly traceId: string;
  /** 16 hexadecimal digits (W3C Trace Context §3.2.2.4). */
  readonly spanId: string;
  /** Begins a part of this work; `client` where it is an exchange with somebody else. */
  child(name: string, kind?: "internal" | "client"): Span;
  /** What is set again is replaced. */
  set(attributes: SpanAttributes): void;
  /** The work is over; what is given is why it failed. Later calls are passed over. */
  end(error?: unknown): void;
  /**
   * Begins work that is done once for several spans, this one among them: a span of a trace of its own, and links between
   * it and each of them. Undefined where none of them is exported.
   */
  shared(name: string, spans: readonly Span[]): Span | undefined;
}

/** Does the work as a part of the parent's, where there is one. Settles as the work does. */
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
