/**
 * The way of every unary call, on every protocol: deadline, gate, body, checks, handler, refusal. An adapter says how its
 * protocol carries the message, and writes the outcome.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { create, type DescMessage, type Message, type Registry } from "@bufbuild/protobuf";
import type { FastifyRequest } from "fastify";
import type { InboundRequest } from "../../base/inbound-request.ts";
import {
  admitBody,
  type BodyBudget,
  type BodyLease,
  type BodyLimits,
  declaredBytes,
  prefixBytes,
  readBody,
} from "../../http/body.ts";
import { startDeadline, withinDeadline } from "../../http/deadline.ts";
import type { Call } from "./call.ts";
import { CallContext } from "./context.ts";
import type { Gate } from "./gate.ts";
import type { UnaryMethod } from "./methods.ts";
import { toServiceError } from "./refusals.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set by the server's first hook. */
    call: Call;
    inbound: InboundRequest;
    response: ServerResponse;
  }
}

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

/** A message that was read, and its call. */
export interface Received {
  readonly call: Call;
  readonly rpc: string;
  readonly desc: DescMessage;
  readonly message: Message;
  readonly signal: AbortSignal;
}

/** Checks a call once its message is read. Throws or rejects with a `ServiceError` to refuse. */
export type Checks = (received: Received) => void | Promise<void>;

export interface AdapterOptions {
  readonly service: string;
  readonly gate: Gate;
  readonly checks: Checks;
  readonly limits: TransportLimits;
  /** Types that `Any` may hold in JSON; none if absent. */
  readonly jsonTypes?: Registry;
  readonly bodies: BodyBudget;
}

/** A request body, not read yet. */
export interface UnreadBody {
  readonly stream: Readable;
  readonly headers: IncomingHttpHeaders;
  /** Whether it begins with a gRPC prefix. */
  readonly isFramed: boolean;
  /** Called when the body may be sent. */
  readonly onAdmitted?: () => void;
}

/** A call as its adapter has read it from the headers. */
export interface Incoming<Answer> {
  readonly call: Call;
  readonly inbound: InboundRequest;
  readonly rawHeaders: readonly string[];
  readonly protocolName: string;
  /** The caller's time limit in milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** Throws the refusal of headers that the protocol does not allow. Called after the gate. */
  readonly requireGood?: () => void;
  /** Absent if the call has none. */
  readonly body?: UnreadBody;
  /** Decodes the message from the body, which is empty if there is none. The limits are those of decompression. */
  readonly decode: (body: Buffer, limits: () => BodyLimits) => Message | Promise<Message>;
  readonly encode: (message: Message) => Answer | Promise<Answer>;
  /** Calls back if the caller goes away before the answer is written. */
  readonly whenGone: (cancel: () => void) => void;
}

export interface Outcome<Answer> {
  readonly context: CallContext;
  /** Undefined if the call is refused; `call.refusal` is then set. */
  readonly answer: Answer | undefined;
}

const nothing = Buffer.alloc(0);

/** Carries one call. Never rejects. */
export async function exchange<Answer>(
  { rpc, spec }: UnaryMethod,
  { gate, checks, limits, bodies }: AdapterOptions,
  incoming: Incoming<Answer>,
): Promise<Outcome<Answer>> {
  const { call, inbound, rawHeaders, protocolName, body } = incoming;
  const deadline = startDeadline(incoming.timeoutMs, limits.maxDeadlineMs, call.ticket?.waitedMs);
  const { signal } = deadline;
  incoming.whenGone(deadline.cancel);
  const context = new CallContext({ spec, call, deadline, protocolName, inbound, rawHeaders });
  let lease: BodyLease | undefined;
  const bodyLimits = (): BodyLimits => {
    lease ??= bodies.lease(call, inbound);
    return { maxBytes: limits.maxBodyBytes(rpc), timeoutMs: limits.bodyTimeoutMs, lease };
  };
  try {
    await gate({ call, inbound, rpc, signal });
    incoming.requireGood?.();
    const message = await readMessage(incoming, body, bodyLimits, signal);
    const { input: desc, output } = spec.method;
    const answered = await withinDeadline(async () => {
      const pending = checks({ call, rpc, desc, message, signal });
      if (pending !== undefined) await pending;
      return spec.impl(message, context);
    }, signal);
    const encoded = incoming.encode(create(output, answered));
    return { context, answer: encoded instanceof Promise ? await encoded : encoded };
  } catch (thrown) {
    call.refusal = toServiceError(thrown);
    return { context, answer: undefined };
  } finally {
    deadline.end();
    // Before the answer, after which the caller may send the next body at once.
    lease?.release();
  }
}

/** A function for reading and decoding, so that nothing keeps the bytes during the call. */
async function readMessage<Answer>(
  { call, decode }: Incoming<Answer>,
  body: UnreadBody | undefined,
  bodyLimits: () => BodyLimits,
  signal: AbortSignal,
): Promise<Message> {
  if (body === undefined) return decode(nothing, bodyLimits);
  const { stream, headers, isFramed, onAdmitted } = body;
  const { maxBytes, ...others } = bodyLimits();
  const limits = { ...others, maxBytes: maxBytes + (isFramed ? prefixBytes : 0) };
  const announced = { bytes: declaredBytes({ headers }), isFramed };
  admitBody(announced, limits);
  onAdmitted?.();
  return decode(await readBody(stream, announced, limits, signal, call.ticket), bodyLimits);
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
