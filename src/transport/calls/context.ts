/** The handler context of the calls that our own adapters carry, with one timer and one abort controller each. */
import type { HandlerContext, MethodImplSpec } from "@connectrpc/connect";
import { createContextValues } from "@connectrpc/connect";
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
 * Makes the context that interceptors and handlers see. Its request headers are made when somebody first looks at them:
 * hardly any call's are, and to make them costs more than to route the call.
 */
export function createCallContext(init: ContextInit): HandlerContext {
  const { method } = init.spec;
  let requestHeader: Headers | undefined;
  return {
    method,
    service: method.parent,
    requestMethod: init.requestMethod,
    protocolName: init.protocolName,
    url: init.url,
    signal: init.deadline.signal,
    timeoutMs: init.deadline.timeoutMs,
    get requestHeader() {
      requestHeader ??= toHeaders(init.rawHeaders);
      return requestHeader;
    },
    responseHeader: new Headers(),
    responseTrailer: new Headers(),
    values: createContextValues().set(kCall, init.call),
  };
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
