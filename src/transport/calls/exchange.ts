/**
 * Carries out every unary call, on every protocol: deadline, gate, body, checks, handler, answer or refusal. A codec
 * reads and writes the message of one protocol.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Readable } from "node:stream";
import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { type ContextValues, createContextValues, type HandlerContext } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { ServiceError } from "../../base/errors.ts";
import {
  type BodyBudget,
  type BodyLease,
  type BodyLimits,
  continueIfExpected,
  declaredBytes,
  prefixBytes,
  readBody,
} from "../../http/body.ts";
import { type Deadline, startDeadline, withinDeadline } from "../../http/deadline.ts";
import { type Call, kCall } from "./call.ts";
import type { UnaryMethod, UnarySpec } from "./methods.ts";
import { sendWritten, toServiceError, type Written, writeRefusal } from "./refusals.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set by the server's first hook. */
    call: Call;
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

/** Checks a call once its message is read. Throws a `ServiceError` to refuse. */
export type Checks = (call: Call, desc: DescMessage, message: Message) => void;

export interface AdapterOptions {
  readonly service: string;
  readonly gate: Gate;
  readonly checks: Checks;
  readonly limits: TransportLimits;
  readonly bodies: BodyBudget;
}

/** A request's headers and its body, which is not read yet. */
export interface Source {
  readonly headers: IncomingHttpHeaders;
  /** As Node returns them: name, value, name, value, … */
  readonly rawHeaders: readonly string[];
  readonly stream: Readable;
  /** Called when the body may be sent. */
  readonly onAdmitted?: () => void;
}

/** How a protocol carries one call, by the headers of its request. */
export interface Codec<Body extends Uint8Array | string> {
  /** The caller's time limit in milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** Refusal of headers that the protocol does not allow, if the gate does not refuse the call. */
  readonly problem?: ServiceError | undefined;
  /** The message is the whole body, or follows a gRPC prefix; or the call has no body. */
  readonly body: "whole" | "framed" | "none";
  /** Decodes the message from the body, which is empty if there is none. The limits are those of decompression. */
  decode(body: Buffer, call: Call, limits: () => BodyLimits): Message | Promise<Message>;
  write(message: Message, context: CallContext): Written<Body> | Promise<Written<Body>>;
}

const nothing = Buffer.alloc(0);

/** Carries one call, and returns its answer or refusal. Never rejects. */
export async function exchange<Body extends Uint8Array | string>(
  { rpc, spec }: UnaryMethod,
  { service, gate, checks, limits, bodies }: AdapterOptions,
  call: Call,
  source: Source,
  codec: Codec<Body>,
): Promise<Written<Body | Uint8Array>> {
  const deadline = startDeadline(codec.timeoutMs, limits.maxDeadlineMs, call.ticket?.waitedMs);
  const { signal } = deadline;
  call.onGone = deadline.cancel;
  const context = new CallContext(spec, deadline, call, source);
  let lease: BodyLease | undefined;
  const bodyLimits = (): BodyLimits => {
    lease ??= bodies.lease(call);
    return { maxBytes: limits.maxBodyBytes(rpc), timeoutMs: limits.bodyTimeoutMs, lease };
  };
  try {
    await gate({ call, rpc, signal });
    if (codec.problem !== undefined) throw codec.problem;
    const message = await readMessage(call, source, codec, bodyLimits, signal);
    const { input: desc, output } = spec.method;
    const answered = await withinDeadline(async () => {
      checks(call, desc, message);
      return spec.impl(message, context);
    }, signal);
    const written = codec.write(create(output, answered), context);
    return written instanceof Promise ? await written : written;
  } catch (thrown) {
    const { answerHeaders: headers, responseTrailer: trailers } = context;
    return writeRefusal(service, call, toServiceError(thrown), { headers, trailers });
  } finally {
    deadline.end();
    // Before the answer, after which the caller may send the next body at once.
    lease?.release();
  }
}

/** Reads and decodes the body. Not inlined: nothing may keep the bytes in memory during the call. */
async function readMessage(
  call: Call,
  { stream, headers, onAdmitted }: Source,
  codec: Codec<Uint8Array | string>,
  bodyLimits: () => BodyLimits,
  signal: AbortSignal,
): Promise<Message> {
  if (codec.body === "none") return codec.decode(nothing, call, bodyLimits);
  const isFramed = codec.body === "framed";
  const { maxBytes, ...others } = bodyLimits();
  const limits = { ...others, maxBytes: maxBytes + (isFramed ? prefixBytes : 0) };
  const announced = { bytes: declaredBytes({ headers }), isFramed };
  return codec.decode(await readBody(stream, announced, limits, signal, call.ticket, onAdmitted), call, bodyLimits);
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

/** Adds a route for unary calls, with what carries each. */
export function addUnaryRoute(
  app: FastifyInstance,
  method: string | string[],
  url: string,
  carry: (call: Call, source: Source) => Written | Promise<Written<Uint8Array | string>>,
): void {
  addRoute(app, method, url, async (request, reply) => {
    const { raw, call } = request;
    const { headers, rawHeaders } = raw;
    const onAdmitted = () => continueIfExpected(raw, reply.raw);
    sendWritten(await carry(call, { headers, rawHeaders, stream: raw, onAdmitted }), request, reply);
  });
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

  constructor({ method }: UnarySpec, deadline: Deadline, call: Call, { rawHeaders }: Source) {
    this.method = method;
    this.service = method.parent;
    this.requestMethod = call.inbound.method;
    this.protocolName = call.protocol?.replace("_", "-") ?? "";
    this.url = call.inbound.url;
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
// every protocol. `gate/chain.ts` has the order.

export interface GateContext {
  readonly call: Call;
  /** `Service/Method`. */
  readonly rpc: string;
  /** Aborted when the deadline passes or the caller goes away. */
  readonly signal: AbortSignal;
}

/** Rejects with a `ServiceError` to refuse. */
export type Gate = (context: GateContext) => Promise<void>;

/** A part of the gate, which may end at once. Throws or rejects to refuse. */
export type GateLink = (context: GateContext) => void | Promise<void>;
