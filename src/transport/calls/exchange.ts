/** What the adapters share: the call that fastify attached to a request, and how each begins. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Http2ServerRequest, type ServerHttp2Stream } from "node:http2";
import type { Registry } from "@bufbuild/protobuf";
import { createContextKey, type Interceptor } from "@connectrpc/connect";
import type { FastifyRequest } from "fastify";
import type { InboundRequest } from "../../auth/inbound-request.ts";
import type { Rules } from "../codec/validate.ts";
import type { Gate } from "../gate/gate.ts";
import type { BodyBudget } from "../http/body-budget.ts";
import type { Call } from "./call.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set by the server's first hook. */
    call: Call;
    inbound: InboundRequest;
    response: ServerResponse;
  }
}

/** How wrapped handlers of the Connect plugin find the fastify request behind a call. */
export const kRequest = createContextKey<FastifyRequest | undefined>(undefined, { description: "request" });

/** Limits of the transport. */
export interface TransportLimits {
  /** Largest request message in bytes, by method. */
  readonly maxBodyBytes: (rpc: string) => number;
  /** Largest item of a bulk request in bytes, by method. Default: as large as the request. */
  readonly maxItemBytes?: (rpc: string) => number;
  /** Longest time until a request body is complete, in milliseconds. */
  readonly bodyTimeoutMs: number;
  /** Longest time that any call may take, in milliseconds. */
  readonly maxDeadlineMs: number;
}

/** Largest item of a method's requests, in bytes. */
export function maxItemBytes(limits: TransportLimits, rpc: string): number {
  return (limits.maxItemBytes ?? limits.maxBodyBytes)(rpc);
}

/** What every adapter needs to carry a call. */
export interface AdapterOptions {
  readonly service: string;
  readonly gate: Gate;
  readonly interceptors: Interceptor[];
  /** The rules that requests are held to. */
  readonly rules: Rules;
  readonly limits: TransportLimits;
  /** Types that `Any` may hold in JSON; none where absent, as in the contract. */
  readonly jsonTypes?: Registry;
  /** Memory for request bodies. */
  readonly bodies: BodyBudget;
}

/** Notes the protocol and method on the call behind a request. */
export function route(request: FastifyRequest, protocol: Call["protocol"] & string, rpc: string): Call {
  const { call } = request;
  call.protocol = protocol;
  call.rpc = rpc;
  return call;
}

/** Whether all of the answer is out. Node says of an HTTP/2 stream that was reset that it is finished, but not ended. */
export function isAnswered({ writableEnded, writableFinished }: ServerResponse): boolean {
  return writableEnded && writableFinished;
}

/** Runs `onGone` if the caller goes away before the answer is out. */
export function whenCallerGone(response: ServerResponse, onGone: () => void): void {
  response.on("close", () => {
    if (!isAnswered(response)) onGone();
  });
}

/** Tells a caller that waits for it (`Expect: 100-continue`) that the body may come. One who has left is told nothing. */
export function continueIfExpected(
  { headers }: Pick<IncomingMessage, "headers">,
  response: Pick<ServerResponse, "writeContinue"> & { readonly stream?: ServerHttp2Stream | undefined },
): void {
  if (headers.expect?.toLowerCase() !== "100-continue") return;
  // Over HTTP/2 it would throw for a stream that is gone.
  if (response.stream?.destroyed === true || response.stream?.headersSent === true) return;
  response.writeContinue();
}

/** Value of `Content-Length`, where there is one. */
export function declaredBytes(request: Pick<IncomingMessage, "headers">): number | undefined {
  const value = request.headers["content-length"];
  return value === undefined ? undefined : Number(value);
}

/** Whether a body comes with the request, as far as its headers say. */
export function hasBody(request: IncomingMessage | Http2ServerRequest): boolean {
  if (request instanceof Http2ServerRequest) return !request.stream.endAfterHeaders;
  return request.headers["transfer-encoding"] !== undefined || (declaredBytes(request) ?? 0) > 0;
}

/** Handler of routes whose hook answers every request: fastify demands one. */
export function answeredByHook(): never {
  throw new Error("the route's hook has answered");
}
