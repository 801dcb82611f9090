/** The handler context of the calls that our own adapters carry, with one timer and one abort controller each. */
import { type ContextValues, createContextValues, type HandlerContext, type MethodImplSpec } from "@connectrpc/connect";
import { type Call, kCall } from "./call.ts";
import type { Deadline } from "./deadline.ts";

/** A method with one request and one answer, and what implements it. */
export type UnarySpec = Extract<MethodImplSpec, { kind: "unary" }>;

export interface ContextInit {
  readonly spec: UnarySpec;
  readonly call: Call;
  readonly deadline: Deadline;
  readonly protocolName: string;
  readonly requestMethod: string;
  readonly url: string;
  /** Raw request headers as Node gives them: name, value, name, value, … */
  readonly rawHeaders: readonly string[];
}

/**
 * The context that interceptors and handlers see. Its headers are made when somebody first looks at them: hardly any
 * call's are, they cost more than to route the call, and are the largest part of what it keeps in memory.
 */
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

  constructor({ spec, call, deadline, protocolName, requestMethod, url, rawHeaders }: ContextInit) {
    this.method = spec.method;
    this.service = spec.method.parent;
    this.requestMethod = requestMethod;
    this.protocolName = protocolName;
    this.url = url;
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

  /** What was put into the answer's header, by lowercase name. */
  get answerHeaders(): Readonly<Record<string, string>> {
    return this.#responseHeader === undefined ? {} : Object.fromEntries(this.#responseHeader);
  }

  /** What was put into the answer's trailer, by lowercase name. */
  get answerTrailers(): Readonly<Record<string, string>> {
    return this.#responseTrailer === undefined ? {} : Object.fromEntries(this.#responseTrailer);
  }
}

/** Every header in order. HTTP/2 pseudo-headers are none. */
function toHeaders(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (!name.startsWith(":")) headers.append(name, rawHeaders[i + 1] as string);
  }
  return headers;
}
