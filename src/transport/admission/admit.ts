/** Gives each request and stream an admission ticket before anything else is done for it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { InboundRequest } from "../../auth/inbound-request.ts";
import { Connection } from "../../base/connection.ts";
import { overloaded, type ServiceError } from "../../base/errors.ts";
import type { Call } from "../calls/call.ts";
import { refusalHeaders, toEnvelope } from "../calls/errors.ts";
import { answerHeaders, beginCall, type CallLifecycle, endCall, pathOf } from "../calls/lifecycle.ts";
import type { ServedMethod } from "../calls/methods.ts";
import { isRpcRequest, type Written, writeRpcRefusal } from "../connect/rpc-refusal.ts";
import type { Gate } from "../gate/gate.ts";
import { inboundOf } from "../http/inbound-request.ts";
import { boundUnreadBody, unreadBodyGraceMs } from "../http/unread-body.ts";
import { type Accounts, operatorGroup, probeGroup, unauthenticatedGroup } from "./accounts.ts";
import type { Admission, AdmissionTicket } from "./admission.ts";
import type { Account } from "./wait-queue.ts";

/** Entry points by protocol. `start` is called when the call may run, or never. */
export interface Admit {
  request(request: IncomingMessage, response: ServerResponse, start: () => void): void;
  /** A request on the operator listener, whose callers all share one group. */
  operatorRequest(request: IncomingMessage, response: ServerResponse, start: () => void): void;
  /** A health probe. It is queued, and started even when other calls are refused. */
  probe(request: IncomingMessage, response: ServerResponse, start: () => void): void;
  stream(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
    start: () => void,
  ): void;
}

export interface AdmitOptions extends CallLifecycle {
  readonly service: string;
  readonly admission: Admission;
  readonly accounts: Accounts;
  readonly methods: readonly ServedMethod[];
  /** Whether memory is almost used up, so that no more calls should queue. Default: never. */
  readonly isShortOfMemory?: () => boolean;
  /** Paths of services that need no credentials. Their calls are queued, and hold no place once they have started. */
  readonly unauthenticatedPaths: readonly string[];
}

/**
 * Property that holds the ticket of a request or an HTTP/2 stream. A WeakMap with an entry per call would lengthen
 * every major garbage collection by some milliseconds.
 */
const ticketKey = Symbol("ticket");

interface Ticketed {
  [ticketKey]?: AdmissionTicket;
}

export function ticketOf(source: IncomingMessage | ServerHttp2Stream): AdmissionTicket | undefined {
  return ("stream" in source ? (source.stream as Ticketed) : (source as Ticketed))[ticketKey];
}

/** Wraps the gate: after it, the call counts for the tenant of its credentials. */
export function countCaller(gate: Gate, accounts: Accounts): Gate {
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

export function createAdmit(options: AdmitOptions): Admit {
  const { service, admission, accounts, isShortOfMemory = () => false } = options;
  const open = new Set(options.unauthenticatedPaths);
  const rpcs = new Map(
    options.methods.flatMap(({ rpc, restPath, rpcPath }) => [
      [restPath, rpc],
      [rpcPath, rpc],
    ]),
  );

  function enter(
    source: object,
    answer: ServerResponse | ServerHttp2Stream,
    inbound: InboundRequest,
    start: () => void,
    refuse: () => void,
    accountOf: (inbound: InboundRequest) => Account = (inbound) => accounts.of(inbound),
  ): void {
    const isUnauthenticated = open.has(pathOf(inbound.url));
    const account = accountOf(inbound);
    // The start may happen while the event loop works for another connection.
    const connection = Connection.current();
    const own = (work: () => void) => (connection === undefined ? work : () => connection.run(work));
    const ticket: AdmissionTicket = isUnauthenticated
      ? admission.ticket(
          { ...account, group: unauthenticatedGroup },
          () => startAndPark(own(start), ticket),
          own(refuse),
        )
      : admission.ticket(account, own(start), own(refuse));
    (source as Ticketed)[ticketKey] = ticket;
    follow(answer, ticket);
    // One call may always wait: its turn shows when memory is free again.
    const mayWait = isUnauthenticated || account.group === operatorGroup || admission.waiting === 0;
    if (mayWait || !isShortOfMemory()) ticket.enter();
    else own(refuse)();
  }

  function refuse(inbound: InboundRequest, rawHeaders: readonly string[], httpVersion: string, send: Send): void {
    const call = beginCall(rawHeaders, options);
    const [contentType = ""] = inbound.headerValues("content-type");
    const rpc = rpcs.get(pathOf(inbound.url));
    if (rpc !== undefined) call.rpc = rpc;
    const refusal = overloaded();
    send(call, writeRefusal(service, call, refusal, inbound.url, contentType));
    endCall(call, inbound, httpVersion, refusal.httpStatus, options);
  }

  function operatorAccount(inbound: InboundRequest): Account {
    const { group, member } = accounts.of(inbound);
    return { group: operatorGroup, member: `${group} ${member}` };
  }

  function http1(accountOf?: (inbound: InboundRequest) => Account): Admit["request"] {
    return (request, response, start) => {
      const { rawHeaders, httpVersion } = request;
      const inbound = inboundOf(request);
      enter(
        request,
        response,
        inbound,
        start,
        () =>
          refuse(inbound, rawHeaders, httpVersion, (call, { status, headers, body }) => {
            boundUnreadBody(request, response);
            response.writeHead(status, { ...answerHeaders(call), ...headers });
            response.end(body);
          }),
        accountOf,
      );
    };
  }

  return {
    request: http1(),
    operatorRequest: http1(operatorAccount),
    probe(request, response, start) {
      const { remoteAddress } = inboundOf(request);
      const account = { group: probeGroup, member: remoteAddress };
      const connection = Connection.current();
      const own = connection === undefined ? start : () => connection.run(start);
      const ticket = admission.ticket(account, own, own);
      follow(response, ticket);
      ticket.enter();
    },
    stream(stream, headers, rawHeaders, start) {
      const { ":method": method = "", ":path": url = "" } = headers;
      const inbound = inboundOf({ rawHeaders, socket: stream.session?.socket, method, url });
      enter(stream, stream, inbound, start, () =>
        refuse(inbound, rawHeaders, "2.0", (call, { status, headers, body }) => {
          if (stream.destroyed || stream.closed) return;
          const endStream = body.byteLength === 0;
          stream.respond({ ":status": status, ...answerHeaders(call), ...headers }, { endStream });
          if (!endStream) stream.end(body);
          // Discards the rest of the body, for a limited time.
          stream.resume();
          stream.setTimeout(unreadBodyGraceMs, () => stream.destroy());
        }),
      );
    },
  };
}

/**
 * A call gives up its place when the head of its answer is written: how fast the caller reads does not matter to
 * admission. A streamed answer takes its turns again.
 */
function follow(answer: ServerResponse | ServerHttp2Stream, ticket: AdmissionTicket): void {
  answer.on("close", () => ticket.leave());
  const name = "respond" in answer ? "respond" : "writeHead";
  const heads = answer as unknown as Record<typeof name, (...head: unknown[]) => unknown>;
  const writeHead = heads[name];
  heads[name] = (...head) => {
    ticket.park();
    return writeHead.apply(answer, head);
  };
}

type Send = (call: Call, written: Written) => void;

function startAndPark(start: () => void, ticket: AdmissionTicket): void {
  start();
  ticket.park();
}

export function writeRefusal(
  service: string,
  call: Call,
  refusal: ServiceError,
  url: string,
  contentType: string,
): Written {
  if (!isRpcRequest(url, contentType)) return writeEnvelope(service, call, refusal);
  const written = writeRpcRefusal(service, call, refusal, contentType);
  // gRPC allows an answer of trailers only, which is one frame less.
  const { trailers, ...rest } = written;
  return trailers === undefined ? written : { ...rest, headers: { ...rest.headers, ...trailers } };
}

function writeEnvelope(service: string, call: Call, refusal: ServiceError): Written {
  call.protocol = "rest";
  call.refusal = refusal;
  const body = Buffer.from(JSON.stringify(toEnvelope(service, call.requestId, refusal)), "utf8");
  return {
    status: refusal.httpStatus,
    headers: {
      ...refusalHeaders(refusal),
      "content-type": "application/json",
      "content-length": String(body.byteLength),
    },
    body,
  };
}
