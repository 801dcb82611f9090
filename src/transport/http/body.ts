/** Reading a request body: bounded in size, in memory and in time, and never past the caller's going away. */
import type { Readable } from "node:stream";
import { ServiceError } from "../../base/errors.ts";
import type { AdmissionTicket } from "../admission/admission.ts";
import { abortRefusal } from "../calls/deadline.ts";
import type { BodyLease } from "./body-budget.ts";

export interface BodyLimits {
  /** Largest body in bytes, as sent. */
  readonly maxBytes: number;
  /** Longest time from the headers to the last byte, in milliseconds. */
  readonly timeoutMs: number;
  /** Takes from the budget what is read, before it is read. Whoever opened it releases it. */
  readonly lease: BodyLease;
}

/** How much is to come, as far as the request says. */
export interface Announced {
  /** Value of `Content-Length`. */
  readonly bytes: number | undefined;
  /** Whether the body begins with a prefix of gRPC, which gives the length of the message after it. */
  readonly isFramed?: boolean;
}

/** Flag and length before a message of gRPC and gRPC-Web. */
export const prefixBytes = 5;

/** The refusal of a body over the limit. */
export function bodyTooLarge(): ServiceError {
  return new ServiceError("body_too_large", "request exceeds the size limit of this method");
}

/** The refusal of a body that is too slow. */
export function bodyTooSlow(): ServiceError {
  return new ServiceError("request_timeout", "request body did not arrive in time");
}

/**
 * Throws what is known to be wrong with the body before any of it is read: `body_too_large`, or `overloaded` where what
 * was announced has no room.
 */
export function admitBody({ bytes }: Announced, { maxBytes, lease }: BodyLimits): void {
  if (bytes === undefined) return;
  if (bytes > maxBytes) throw bodyTooLarge();
  lease.holds(bytes);
}

/**
 * Reads the whole body. Rejects with `body_too_large` or `overloaded` before or while reading, `request_timeout`,
 * `canceled` when the stream ends early, or the refusal behind `signal`. On rejection the stream is left paused.
 *
 * @param ticket of the call, which is given up for as long as the caller has not sent everything
 */
export async function readBody(
  stream: Readable,
  announced: Announced,
  limits: BodyLimits,
  signal: AbortSignal,
  ticket?: AdmissionTicket,
): Promise<Buffer> {
  admitBody(announced, limits);
  if (signal.aborted) throw abortRefusal(signal);
  const whole = readArrived(stream, announced.bytes);
  if (whole !== undefined) return whole;
  const reading = readOn(stream, announced, limits, signal);
  return ticket === undefined ? reading : awayFrom(ticket, reading, signal);
}

/** The call is not worked on while its caller sends, and takes its turn again with the whole body. */
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
    const timer = setTimeout(() => settle(bodyTooSlow()), limits.timeoutMs);
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
    // A stream of HTTP/2 whose caller is gone ends too, and is no whole body.
    const onEnd = () => ("aborted" in stream && stream.aborted === true ? onGone() : settle());
    const onAbort = () => settle(abortRefusal(signal));
    stream.on("data", onData).on("end", onEnd).on("error", onGone).on("close", onGone);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** The whole body where all that was declared is here already, as it is when it comes along with the headers. */
function readArrived(stream: Readable, declaredBytes: number | undefined): Buffer | undefined {
  if (declaredBytes === undefined || declaredBytes === 0 || stream.readableLength !== declaredBytes) return undefined;
  const body: Buffer = stream.read(declaredBytes);
  // Nothing else is to come, but the stream ends for those who read on alone.
  stream.resume();
  return body;
}

/**
 * What has come of a body, in one piece of memory: a chunk may be a byte, and keeps what it came with, so that a list of
 * chunks could be any multiple of the body.
 */
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

  /** A frame says how long its message is: it has room as a whole, or is refused before it is read. */
  #expect(messageBytes: number): void {
    const { maxBytes, lease } = this.#limits;
    const expected = prefixBytes + messageBytes;
    if (expected > maxBytes) throw bodyTooLarge();
    lease.holds(expected);
    this.#expectedBytes = expected;
  }

  #reserve(size: number): void {
    if (size <= this.#bytes.byteLength && this.#sizeBytes > 0) return;
    // Memory that is not written to is not used.
    const room = Math.min(this.#limits.maxBytes, Math.max(size, this.#expectedBytes, 2 * this.#sizeBytes));
    const bytes = Buffer.allocUnsafeSlow(room);
    this.#bytes.copy(bytes, 0, 0, this.#sizeBytes);
    this.#bytes = bytes;
  }
}
