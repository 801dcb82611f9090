/** Invokes unary methods through the interceptors, for our own adapters. */
import { create, type Message } from "@bufbuild/protobuf";
import type { HandlerContext, Interceptor, UnaryRequest, UnaryResponse } from "@connectrpc/connect";
import type { UnarySpec } from "./context.ts";

/** Calls the implementation of one method through the interceptors. Rejects with a `ConnectError`. */
export type UnaryInvoker = (context: HandlerContext, request: Message) => Promise<Message>;

/** A request on its way through the interceptors. Copies keep the original of the first interceptor. */
interface CarriedRequest extends UnaryRequest {
  readonly original: { readonly context: HandlerContext; request?: UnaryRequest };
}

/**
 * Composes the interceptors once; Connect does it for every call. They may pass on another request. Header and trailer
 * of the answer belong to the context and are changed in place.
 */
export function unaryInvoker({ method, impl }: UnarySpec, interceptors: readonly Interceptor[]): UnaryInvoker {
  const { parent: service } = method;
  const call = async (request: CarriedRequest): Promise<UnaryResponse> => {
    const answer = await impl(request.message, handlerContext(request));
    const { context } = request.original;
    return {
      stream: false,
      service,
      method,
      message: create(method.output, answer),
      get header() {
        return context.responseHeader;
      },
      get trailer() {
        return context.responseTrailer;
      },
    };
  };
  const chained = interceptors.reduceRight(
    (next, interceptor) => interceptor(next),
    call as unknown as Parameters<Interceptor>[0],
  ) as (request: CarriedRequest) => Promise<UnaryResponse>;
  return async (context, message) => {
    const { requestMethod, url, signal, values: contextValues } = context;
    const original: CarriedRequest["original"] = { context };
    const request: CarriedRequest = {
      stream: false,
      service,
      method,
      requestMethod,
      url,
      signal,
      get header() {
        return context.requestHeader;
      },
      contextValues,
      message,
      original,
    };
    original.request = request;
    return (await chained(request)).message;
  };
}

/** Returns the context with the members that an interceptor replaced. */
function handlerContext(request: CarriedRequest): HandlerContext {
  const { context, request: given } = request.original;
  if (request === given) return context;
  const { method, service, requestMethod, protocolName, url, timeoutMs, responseHeader, responseTrailer } = context;
  return {
    ...{ method, service, requestMethod, protocolName, url, timeoutMs, responseHeader, responseTrailer },
    requestHeader: request.header,
    signal: request.signal,
    values: request.contextValues,
  };
}
