/** Reads request bodies with limits of size, memory and time. Stops if the caller goes away. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Http2ServerRequest, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import type { Caller } from "../base/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import { localSums } from "../base/sums.ts";
import type { AdmissionTicket } from "./admission.ts";
import { abortRefusal } from "./deadline.ts";

export interface BodyLimits {
  /** Largest body in bytes, as sent. */
  readonly maxBytes: number;
  /** Time from the headers to the last byte, in milliseconds. */
  readonly timeoutMs: number;
  /** Reserves memory before bytes are read. The opener releases it. */
  readonly lease: BodyLease;
}

export interface Announced {
  /** Value of `Content-Length`. */
  readonly bytes: number | undefined;
  /** Whether the body begins with a gRPC prefix, which has the length of the message. */
  readonly isFramed?: boolean;
}

/** Flag and length before a message of gRPC and gRPC-Web. */
export const prefixBytes = 5;

export function bodyTooLarge(): ServiceError {
  return new ServiceError("body_too_large", "request exceeds the size limit of this method");
}

/**
 * Sends `100 Continue` to a caller that expects it (`Expect: 100-continue`), but not over HTTP/1.0, which has no interim
 * answers (RFC 9110 §10.1.1). Does nothing if the caller has left.
 */
export function continueIfExpected(
  { headers, httpVersion }: Pick<IncomingMessage, "headers" | "httpVersion">,
  response: Pick<ServerResponse, "writeContinue"> & { readonly stream?: ServerHttp2Stream | undefined },
): void {
  if (headers.expect?.toLowerCase() !== "100-continue" || httpVersion === "1.0") return;
  // Over HTTP/2 this would throw for a closed stream.
  if (response.stream?.destroyed === true || response.stream?.headersSent === true) return;
  response.writeContinue();
}

export function declaredBytes(request: Pick<IncomingMessage, "headers">): number | undefined {
  const value = request.headers["content-length"];
  return value === undefined ? undefined : Number(value);
}

/** Whether the headers announce a body. */
export function hasBody(request: IncomingMessage | Http2ServerRequest): boolean {
  if (request instanceof Http2ServerRequest) return !request.stream.endAfterHeaders;
  return request.headers["transfer-encoding"] !== undefined || (declaredBytes(request) ?? 0) > 0;
}

/**
 * Reads the whole body. Rejects with `body_too_large` or `overloaded` before or while reading, `request_timeout`,
 * `canceled` when the stream ends early, or the refusal behind `signal`. On rejection the stream is left paused.
 *
 * @param ticket of the call, which is parked until the caller has sent everything
 * @param onAdmitted called when the body may be sent
 */
export async function readBody(
  stream: Readable,
  announced: Announced,
  limits: BodyLimits,
  signal: AbortSignal,
  ticket?: AdmissionTicket,
  onAdmitted?: () => void,
): Promise<Buffer> {
  const { bytes = 0 } = announced;
  if (bytes > limits.maxBytes) throw bodyTooLarge();
  limits.lease.holds(bytes);
  onAdmitted?.();
  if (signal.aborted) throw abortRefusal(signal);
  const whole = readArrived(stream, announced.bytes);
  if (whole !== undefined) return whole;
  const reading = readOn(stream, announced, limits, signal);
  return ticket === undefined ? reading : awayFrom(ticket, reading, signal);
}

/** Parks the call while its caller sends, and resumes it with the whole body. */
async function awayFrom(ticket: AdmissionTicket, reading: Promise<Buffer>, signal: AbortSignal): Promise<Buffer> {
  ticket.park();
  const body = await reading;
  await ticket.resume().catch((refusal) => {
    throw signal.aborted ? abortRefusal(signal) : refusal;
  });
  return body;
}

function readOn(stream: Readable, announced: Announced, limits: BodyLimits, signal: AbortSignal): Promise<Buffer> {
  return new Promise<Buffer>((resolve, reject) => {
    const collected = new Collected(announced, limits);
    const late = () => settle(new ServiceError("request_timeout", "request body did not arrive in time"));
    const timer = setTimeout(late, limits.timeoutMs);
    const settle = (refusal?: ServiceError) => {
      clearTimeout(timer);
      stream.off("data", onData).off("end", onEnd).off("error", onGone).off("close", onGone);
      signal.removeEventListener("abort", onAbort);
      if (refusal === undefined) return resolve(collected.body);
      stream.pause();
      reject(refusal);
    };
    const onData = (chunk: Buffer) => {
      try {
        collected.add(chunk);
      } catch (refusal) {
        settle(refusal as ServiceError);
      }
    };
    const onGone = () => settle(new ServiceError("canceled", "the request ended early"));
    // An HTTP/2 stream also ends when its caller resets it; the body is then incomplete.
    const onEnd = () => ("aborted" in stream && stream.aborted === true ? onGone() : settle());
    const onAbort = () => settle(abortRefusal(signal));
    stream.on("data", onData).on("end", onEnd).on("error", onGone).on("close", onGone);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** Returns the whole body if all declared bytes have arrived already, as they do for small bodies. */
function readArrived(stream: Readable, declaredBytes: number | undefined): Buffer | undefined {
  if (declaredBytes === undefined || declaredBytes === 0 || stream.readableLength !== declaredBytes) return undefined;
  const body: Buffer = stream.read(declaredBytes);
  // Lets the stream end for other readers.
  stream.resume();
  return body;
}

/** Collects a body in one buffer: in a list, a chunk of one byte would keep the buffer that it came in. */
class Collected {
  #bytes: Buffer = Buffer.alloc(0);
  #sizeBytes = 0;
  #expectedBytes: number;
  readonly #isFramed: boolean;
  readonly #limits: BodyLimits;

  constructor({ bytes, isFramed }: Announced, limits: BodyLimits) {
    this.#expectedBytes = bytes ?? 0;
    this.#isFramed = isFramed === true;
    this.#limits = limits;
  }

  get body(): Buffer {
    return this.#bytes.subarray(0, this.#sizeBytes);
  }

  /** Throws `body_too_large`, `overloaded`. */
  add(chunk: Buffer): void {
    const { maxBytes, lease } = this.#limits;
    const before = this.#sizeBytes;
    const size = before + chunk.byteLength;
    if (size > maxBytes) throw bodyTooLarge();
    lease.holds(size);
    if (before === 0 && size >= this.#expectedBytes) this.#bytes = chunk;
    else {
      this.#reserve(size);
      chunk.copy(this.#bytes, before);
    }
    this.#sizeBytes = size;
    if (this.#isFramed && before < prefixBytes && size >= prefixBytes) this.#expect(this.#bytes.readUInt32BE(1));
  }

  /** A frame announces the length of its message: the whole is reserved, or refused before it is read. */
  #expect(messageBytes: number): void {
    const { maxBytes, lease } = this.#limits;
    const expected = prefixBytes + messageBytes;
    if (expected > maxBytes) throw bodyTooLarge();
    lease.holds(expected);
    this.#expectedBytes = expected;
  }

  #reserve(size: number): void {
    if (size <= this.#bytes.byteLength && this.#sizeBytes > 0) return;
    // Memory that is not written to is not resident.
    const room = Math.min(this.#limits.maxBytes, Math.max(size, this.#expectedBytes, 2 * this.#sizeBytes));
    const bytes = Buffer.allocUnsafeSlow(room);
    this.#bytes.copy(bytes, 0, 0, this.#sizeBytes);
    this.#bytes = bytes;
  }
}

// Memory budget of request bodies: in total, for each tenant, and for callers without credentials.

/** Memory of one body, held from before it is read until its call ends. */
export interface BodyLease {
  /** Raises the lease to so many bytes; never lowers it. Throws `overloaded` and takes nothing if there is no room. */
  holds(bytes: number): void;
  /** Gives all of it back. Idempotent. */
  release(): void;
}

/** The call that a body belongs to. */
export interface BodyOwner {
  readonly caller?: Caller;
  readonly inbound: InboundRequest;
  /** Set to the bytes that the body holds. */
  bodyBytes?: number;
}

export interface BodyBudget {
  /** Returns an empty lease for a call that has passed the gate. */
  lease(call: BodyOwner): BodyLease;
  readonly inFlightBytes: number;
}

export type BodyShare = "all" | "tenant" | "anonymous";

export interface BodyBudgetOptions {
  readonly maxBytes: number;
  /** Returns the address of a call, as `callerAddress` does. */
  readonly addressOf: (inbound: InboundRequest) => string;
  /** Whether the process has little memory left; then only one large body is admitted at a time. Default: never. */
  readonly isTight?: () => boolean;
  /** Called for every refusal. */
  readonly onRefused?: (share: BodyShare) => void;
}

/** Shares of the total: one tenant's; that of all callers without credentials; that of one address among those. */
const shares = { tenant: 1 / 2, anonymous: 1 / 8, address: 1 / 32 };

/** Bodies up to this size are admitted even if memory is tight. */
const smallBytes = 256 * 1024;

/** Bodies are usually released within this time. */
const retryAfterSeconds = 1;

interface Account {
  readonly name: string;
  readonly share: BodyShare;
  readonly maximum: number;
}

export function createBodyBudget({
  maxBytes,
  addressOf,
  isTight = () => false,
  onRefused = () => {},
}: BodyBudgetOptions): BodyBudget {
  const held = localSums();
  const all: Account = { name: "all", share: "all", maximum: maxBytes };
  const account = (share: BodyShare, name: string, part: number): Account => {
    return { name: `${share}:${name}`, share, maximum: maxBytes * part };
  };
  const accountsOf = ({ caller, inbound }: BodyOwner): readonly Account[] => {
    if (caller !== undefined) return [account("tenant", caller.tenantId, shares.tenant), all];
    const address = account("anonymous", `at ${addressOf(inbound)}`, shares.address);
    return [account("anonymous", "", shares.anonymous), address, all];
  };
  return {
    get inFlightBytes() {
      return held.of(all.name);
    },
    lease(call) {
      const accounts = accountsOf(call);
      let heldBytes = 0;
      let isOver = false;
      return {
        holds(bytes) {
          const more = bytes - heldBytes;
          if (more <= 0) return;
          // A late request for a call that has ended is refused: it would never be given back.
          const isRefused = isOver || (bytes > smallBytes && held.of(all.name) > heldBytes && isTight());
          const full = isRefused ? all : held.addAll(accounts, more);
          if (full !== undefined) {
            onRefused(full.share);
            throw new ServiceError("overloaded", messages[full.share], { retryAfterSeconds });
          }
          heldBytes = bytes;
          call.bodyBytes = bytes;
        },
        release() {
          if (isOver) return;
          isOver = true;
          for (const { name } of accounts) held.subtract(name, heldBytes);
        },
      };
    },
  };
}

const messages: Readonly<Record<BodyShare, string>> = {
  all: "too many request bodies are in flight",
  tenant: "too many request bodies of this tenant are in flight",
  anonymous: "too many request bodies of callers without credentials are in flight",
};
