/** Handler context of unary calls: one timer and one abort controller per call. */
import { type ContextValues, createContextValues, type HandlerContext, type MethodImplSpec } from "@connectrpc/connect";
import type { InboundRequest } from "../../base/inbound-request.ts";
import type { Deadline } from "../../http/deadline.ts";
import { type Call, kCall } from "./call.ts";

/** A unary method and its implementation. */
export type UnarySpec = Extract<MethodImplSpec, { kind: "unary" }>;

export interface ContextInit {
  readonly spec: UnarySpec;
  readonly call: Call;
  readonly deadline: Deadline;
  readonly protocolName: string;
  readonly inbound: InboundRequest;
  /** As Node returns them: name, value, name, value, … */
  readonly rawHeaders: readonly string[];
}

/** Headers are parsed on first use, which few calls need. */
export class CallContext implements HandlerContext {
  readonly method: UnarySpec["method"];
  readonly service: HandlerContext["service"];
  readonly requestMethod: string;
  readonly protocolName: string;
  readonly url: string;
  readonly signal: AbortSignal;
  readonly timeoutMs: () => number | undefined;
  readonly values: ContextValues;
  readonly #rawHeaders: readonly string[];
  #requestHeader: Headers | undefined;
  #responseHeader: Headers | undefined;
  #responseTrailer: Headers | undefined;

  constructor({ spec, call, deadline, protocolName, inbound, rawHeaders }: ContextInit) {
    this.method = spec.method;
    this.service = spec.method.parent;
    this.requestMethod = inbound.method;
    this.protocolName = protocolName;
    this.url = inbound.url;
    this.signal = deadline.signal;
    this.timeoutMs = deadline.timeoutMs;
    this.values = createContextValues().set(kCall, call);
    this.#rawHeaders = rawHeaders;
  }

  get requestHeader(): Headers {
    this.#requestHeader ??= toHeaders(this.#rawHeaders);
    return this.#requestHeader;
  }

  get responseHeader(): Headers {
    this.#responseHeader ??= new Headers();
    return this.#responseHeader;
  }

  get responseTrailer(): Headers {
    this.#responseTrailer ??= new Headers();
    return this.#responseTrailer;
  }

  /** Headers set on the answer, by lowercase name. */
  get answerHeaders(): Readonly<Record<string, string>> {
    return this.#responseHeader === undefined ? {} : Object.fromEntries(this.#responseHeader);
  }

  /** Trailers set on the answer, by lowercase name. */
  get answerTrailers(): Readonly<Record<string, string>> {
    return this.#responseTrailer === undefined ? {} : Object.fromEntries(this.#responseTrailer);
  }
}

/** HTTP/2 pseudo-headers are left out. */
function toHeaders(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (!name.startsWith(":")) headers.append(name, rawHeaders[i + 1] as string);
  }
  return headers;
}
