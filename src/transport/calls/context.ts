/** The handler context of the calls that our own adapters carry, with one timer and one abort controller each. */
import type { HandlerContext, MethodImplSpec } from "@connectrpc/connect";
import { createContextValues } from "@connectrpc/connect";
import { RequestHeaders } from "../http/request-headers.ts";
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

/** Makes the context that interceptors and handlers see. */
export function createCallContext(init: ContextInit): HandlerContext {
  const { method } = init.spec;
  return {
    method,
    service: method.parent,
    requestMethod: init.requestMethod,
    protocolName: init.protocolName,
    url: init.url,
    signal: init.deadline.signal,
    timeoutMs: init.deadline.timeoutMs,
    requestHeader: new RequestHeaders(init.rawHeaders),
    responseHeader: new Headers(),
    responseTrailer: new Headers(),
    values: createContextValues().set(kCall, init.call),
  };
}
