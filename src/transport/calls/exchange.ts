/**
 * The way of every unary call, on every protocol: deadline, gate, body, checks, handler, refusal. An adapter says how its
 * protocol carries the message, and writes the outcome.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { type ContextValues, createContextValues, type HandlerContext } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { InboundRequest } from "../../base/inbound-request.ts";
import type { Accounts } from "../../http/admit.ts";
import {
  type BodyBudget,
  type BodyLease,
  type BodyLimits,
  declaredBytes,
  prefixBytes,
  readBody,
} from "../../http/body.ts";
import { type Deadline, startDeadline, withinDeadline } from "../../http/deadline.ts";
import { type Call, kCall } from "./call.ts";
import type { UnaryMethod, UnarySpec } from "./methods.ts";
import { toServiceError } from "./refusals.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set by the server's first hook. */
    call: Call;
    inbound: InboundRequest;
  }
}

export interface TransportLimits {
  /** Largest request message in bytes, by method. */
  readonly maxBodyBytes: (rpc: string) => number;
  /** Largest item of a bulk request in bytes, by method. */
  readonly maxItemBytes: (rpc: string) => number;
  /** Time until a request body must be complete, in milliseconds. */
  readonly bodyTimeoutMs: number;
  /** Longest time of any call, in milliseconds. */
  readonly maxDeadlineMs: number;
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
  /** As Node returns them: name, value, name, value, … */
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
  const { call, inbound, body } = incoming;
  const deadline = startDeadline(incoming.timeoutMs, limits.maxDeadlineMs, call.ticket?.waitedMs);
  const { signal } = deadline;
  incoming.whenGone(deadline.cancel);
  const context = new CallContext(spec, deadline, incoming);
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
  return decode(await readBody(stream, announced, limits, signal, call.ticket, onAdmitted), bodyLimits);
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

/**
 * Adds a route that `answer` answers alone. It runs in a hook, so that fastify does not look at the content type before
 * credentials are checked.
 */
export function addRoute(
  app: FastifyInstance,
  method: string | string[],
  url: string,
  answer: (request: FastifyRequest, reply: FastifyReply) => Promise<void>,
): void {
  const onRequest = (request: FastifyRequest, reply: FastifyReply) => {
    reply.hijack();
    void answer(request, reply);
  };
  app.route({ method, url, onRequest, handler: answeredByHook });
}

/** Fastify requires a handler. */
function answeredByHook(): never {
  throw new Error("the route's hook has answered");
}

// Handler context of unary calls: one timer and one abort controller per call.

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

  constructor(
    spec: UnarySpec,
    deadline: Deadline,
    {
      call,
      inbound,
      rawHeaders,
      protocolName,
    }: Pick<Incoming<unknown>, "call" | "inbound" | "rawHeaders" | "protocolName">,
  ) {
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

// The gate: what every call passes after its headers are in and before a byte of its body is read, in the same order on
// every protocol. `gate/chain.ts` has its links and their order.

export interface GateContext {
  readonly call: Call;
  /** The request as the network delivered it: headers and peer. */
  readonly inbound: InboundRequest;
  /** `Service/Method`. */
  readonly rpc: string;
  /** Aborted when the deadline passes or the caller goes away. */
  readonly signal: AbortSignal;
}

/** One link. Throws a `ServiceError` to refuse. */
export type GateLink = (context: GateContext) => void | Promise<void>;

/** Runs the links in order. Rejects with the error of the first that refuses. */
export type Gate = (context: GateContext) => Promise<void>;

export function createGate(links: readonly GateLink[]): Gate {
  return async (context) => {
    for (const link of links) {
      const pending = link(context);
      if (pending !== undefined) await pending;
    }
  };
}

/** Wraps the gate: after it, the call counts for the tenant of its credentials. */
export function countCaller(gate: Gate, accounts: Pick<Accounts, "recognize">): Gate {
  return async (context) => {
    try {
      await gate(context);
    } finally {
      const { call, inbound } = context;
      if (call.caller !== undefined) {
        call.ticket?.belongsTo(call.caller.tenantId);
        accounts.recognize(inbound, call.caller.tenantId);
      }
    }
  };
}
