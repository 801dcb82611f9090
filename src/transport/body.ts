/** Reading a request body: bounded in size and in time, and never past the caller's going away. */
import type { Readable } from "node:stream";
import { overloaded, ServiceError } from "../base/errors.ts";
import type { Place } from "./admission/admission.ts";
import { abortRefusal } from "./deadline.ts";

export interface BodyLimits {
  /** Largest body in bytes, as sent. */
  readonly maxBytes: number;
  /** Longest time from the headers to the last byte, in milliseconds. */
  readonly timeoutMs: number;
}

/** The refusal of a body over the limit. */
export function bodyTooLarge(): ServiceError {
  return new ServiceError("body_too_large", "request exceeds the size limit of this method");
}

/** The refusal of a body that is too slow. */
export function bodyTooSlow(): ServiceError {
  return new ServiceError("request_timeout", "request body did not arrive in time");
}

/**
 * Reads the whole body. Rejects with `body_too_large` before or while reading, `request_timeout`, `canceled` when
 * the stream ends early, or the refusal behind `signal`. On rejection the stream is left paused.
 *
 * @param declaredBytes value of `Content-Length`, if there is one
 * @param place of the call, which is given up for as long as the caller has not sent everything
 */
export function readBody(
  stream: Readable,
  declaredBytes: number | undefined,
  limits: BodyLimits,
  signal: AbortSignal,
  place?: Place,
): Promise<Buffer> {
  if (declaredBytes !== undefined && declaredBytes > limits.maxBytes) {
    return Promise.reject(bodyTooLarge());
  }
  if (signal.aborted) return Promise.reject(abortRefusal(signal));
  const whole = readArrived(stream, declaredBytes);
  if (whole !== undefined) return Promise.resolve(whole);
  const reading = readArriving(stream, limits, signal);
  return place === undefined ? reading : awayFrom(place, reading, signal);
}

/** The call is not worked on while its caller sends, and takes its turn again with the whole body. */
async function awayFrom(place: Place, reading: Promise<Buffer>, signal: AbortSignal): Promise<Buffer> {
  place.park();
  const body = await reading;
  if (await place.resume()) return body;
  throw signal.aborted ? abortRefusal(signal) : overloaded();
}

function readArriving(stream: Readable, limits: BodyLimits, signal: AbortSignal): Promise<Buffer> {
  return new Promise<Buffer>((resolve, reject) => {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    const timer = setTimeout(() => settle(bodyTooSlow()), limits.timeoutMs);
    const settle = (refusal?: ServiceError) => {
      clearTimeout(timer);
      stream.off("data", onData).off("end", onEnd).off("error", onGone).off("close", onGone);
      signal.removeEventListener("abort", onAbort);
      if (refusal === undefined) return resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
      stream.pause();
      reject(refusal);
    };
    const onData = (chunk: Buffer) => {
      sizeBytes += chunk.byteLength;
      if (sizeBytes > limits.maxBytes) return settle(bodyTooLarge());
      chunks.push(chunk);
    };
    const onEnd = () => settle();
    const onGone = () => settle(new ServiceError("canceled", "the request ended early"));
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
