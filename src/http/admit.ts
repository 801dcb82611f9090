/** Gives each request and stream an admission ticket before anything else is done for it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { LRUCache } from "lru-cache";
import type { Account } from "../base/fair-queue.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import {
  type Admission,
  type AdmissionTicket,
  operatorGroup,
  probeGroup,
  unauthenticatedGroup,
  unknownGroup,
} from "./admission.ts";
import { Connection } from "./connection.ts";
import { inboundOf, pathOf } from "./inbound-request.ts";
import { unreadBodyGraceMs } from "./unread-body.ts";

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

/** A complete answer. */
interface BareAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export interface AdmitOptions {
  readonly admission: Admission;
  readonly accounts: Accounts;
  /** Returns and reports the refusal of a call that is not admitted. */
  readonly refusalOf: (inbound: InboundRequest, httpVersion: string) => BareAnswer;
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

/** Groups that are queued even when memory is short. */
const ofService: ReadonlySet<string> = new Set([unauthenticatedGroup, operatorGroup, probeGroup]);

export function createAdmit(options: AdmitOptions): Admit {
  const { refusalOf, admission, accounts, isShortOfMemory = () => false } = options;
  const open = new Set(options.unauthenticatedPaths);

  function enter(
    source: object,
    answer: ServerResponse | ServerHttp2Stream,
    inbound: InboundRequest,
    start: () => void,
    refuse: () => void,
    accountOf: (inbound: InboundRequest) => Account = (inbound) => accounts.of(inbound),
  ): void {
    const account = open.has(pathOf(inbound.url))
      ? { ...accountOf(inbound), group: unauthenticatedGroup }
      : accountOf(inbound);
    // The start may happen while the event loop works for another connection.
    const connection = Connection.current();
    const own = (work: () => void) => (connection === undefined ? work : () => connection.run(work));
    const begin = () => {
      start();
      if (account.group === unauthenticatedGroup) ticket.park();
    };
    const ticket: AdmissionTicket = admission.ticket(account, own(begin), own(refuse));
    (source as Ticketed)[ticketKey] = ticket;
    follow(answer, ticket);
    // One call may always wait: its turn shows when memory is free again.
    const mayWait = ofService.has(account.group) || admission.waiting === 0;
    if (mayWait || !isShortOfMemory()) ticket.enter();
    else own(refuse)();
  }

  function operatorAccount(inbound: InboundRequest): Account {
    const { group, member } = accounts.of(inbound);
    return { group: operatorGroup, member: `${group} ${member}` };
  }

  function http1(accountOf?: (inbound: InboundRequest) => Account): Admit["request"] {
    return (request, response, start) => {
      const inbound = inboundOf(request);
      enter(
        request,
        response,
        inbound,
        start,
        () => {
          const { status, headers, body } = refusalOf(inbound, request.httpVersion);
          response.writeHead(status, headers);
          response.end(body);
        },
        accountOf,
      );
    };
  }

  return {
    request: http1(),
    operatorRequest: http1(operatorAccount),
    probe(request, response, start) {
      const inbound = inboundOf(request);
      enter(request, response, inbound, start, start, ({ remoteAddress: member }) => ({ group: probeGroup, member }));
    },
    stream(stream, headers, rawHeaders, start) {
      const { ":method": method = "", ":path": url = "" } = headers;
      const inbound = inboundOf({ rawHeaders, socket: stream.session?.socket, method, url });
      enter(stream, stream, inbound, start, () => {
        const { status, headers, body } = refusalOf(inbound, "2.0");
        if (stream.destroyed || stream.closed) return;
        const endStream = body.byteLength === 0;
        stream.respond({ ":status": status, ...headers }, { endStream });
        if (!endStream) stream.end(body);
        // Discards the rest of the body, for a limited time.
        stream.resume();
        stream.setTimeout(unreadBodyGraceMs, () => stream.destroy());
      });
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

// Which group and member a call counts for, from headers that are not verified yet.

/** Recognized credentials, about 100 bytes each. The least recently used are evicted first. */
const maxRecognized = 20_000;
/** Only the end of an authorization header is kept: enough of a signature to recognize it, too little to be a token. */
const tailLength = 32;

interface AccountsOptions {
  readonly addressOf: (inbound: InboundRequest) => string;
  /** Lowercase name of the header in which an ingress names the tenant. */
  readonly tenantHeader: string;
  /** Whether calls may carry access tokens. If not, `Authorization` is ignored: tenants may share one. Default: true. */
  readonly takesTokens?: boolean | undefined;
}

/** Recognizes credentials that were accepted before, to order calls. They are verified later. */
export class Accounts {
  readonly #options: AccountsOptions;
  readonly #tenants = new LRUCache<string, string>({ max: maxRecognized });

  constructor(options: AccountsOptions) {
    this.#options = options;
  }

  of(inbound: InboundRequest): Account {
    const credentials = this.#credentials(inbound);
    const tenant = credentials === undefined ? undefined : this.#tenants.get(credentials);
    if (tenant !== undefined) return { group: tenant, member: "" };
    // Callers without an address count as one member.
    return { group: unknownGroup, member: this.#options.addressOf(inbound) || "nowhere" };
  }

  /** Remembers that the credentials of the call belong to the tenant. */
  recognize(inbound: InboundRequest, tenant: string): void {
    const credentials = this.#credentials(inbound);
    if (credentials !== undefined && this.#tenants.get(credentials) !== tenant) this.#tenants.set(credentials, tenant);
  }

  #credentials(inbound: InboundRequest): string | undefined {
    const { tenantHeader, takesTokens = true } = this.#options;
    const [authorization] = takesTokens ? inbound.headerValues("authorization") : [];
    const shown = authorization?.slice(-tailLength) ?? inbound.headerValues(tenantHeader)[0];
    return shown === undefined ? undefined : `${inbound.remoteAddress} ${shown}`;
  }
}
