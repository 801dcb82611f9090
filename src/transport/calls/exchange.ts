/** What the adapters share: the call that fastify attached to a request, and how calls begin. */
import type { ServerResponse } from "node:http";
import type { Registry } from "@bufbuild/protobuf";
import { createContextKey, type Interceptor } from "@connectrpc/connect";
import type { FastifyRequest } from "fastify";
import type { InboundRequest } from "../../base/inbound-request.ts";
import type { BodyBudget } from "../../http/body-budget.ts";
import type { Rules } from "../codec/validate.ts";
import type { Call } from "./call.ts";
import type { Gate } from "./gate.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set by the server's first hook. */
    call: Call;
    inbound: InboundRequest;
    response: ServerResponse;
  }
}

/** Context key under which handlers of the Connect plugin find the fastify request. */
export const kRequest = createContextKey<FastifyRequest | undefined>(undefined, { description: "request" });

export interface TransportLimits {
  /** Largest request message in bytes, by method. */
  readonly maxBodyBytes: (rpc: string) => number;
  /** Largest item of a bulk request in bytes, by method. Default: as large as the request. */
  readonly maxItemBytes?: (rpc: string) => number;
  /** Time until a request body must be complete, in milliseconds. */
  readonly bodyTimeoutMs: number;
  /** Longest time of any call, in milliseconds. */
  readonly maxDeadlineMs: number;
}

export function maxItemBytes(limits: TransportLimits, rpc: string): number {
  return (limits.maxItemBytes ?? limits.maxBodyBytes)(rpc);
}

export interface AdapterOptions {
  readonly service: string;
  readonly gate: Gate;
  readonly interceptors: Interceptor[];
  readonly rules: Rules;
  readonly limits: TransportLimits;
  /** Types that `Any` may hold in JSON; none if absent. */
  readonly jsonTypes?: Registry;
  readonly bodies: BodyBudget;
}

/** Notes the protocol and the method on the request's call. */
export function route(request: FastifyRequest, protocol: Call["protocol"] & string, rpc: string): Call {
  const { call } = request;
  call.protocol = protocol;
  call.rpc = rpc;
  return call;
}

/** Whether the whole answer has been written. Node reports a reset HTTP/2 stream as finished, but not as ended. */
export function isAnswered({ writableEnded, writableFinished }: ServerResponse): boolean {
  return writableEnded && writableFinished;
}

/** Runs `onGone` if the connection closes before the answer is written. */
export function whenCallerGone(response: ServerResponse, onGone: () => void): void {
  response.on("close", () => {
    if (!isAnswered(response)) onGone();
  });
}

/** Handler of routes whose hook answers every request; fastify requires one. */
export function answeredByHook(): never {
  throw new Error("the route's hook has answered");
}
