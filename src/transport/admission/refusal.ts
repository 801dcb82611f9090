/** The refusal of what is too much, in the terms of the caller's protocol, made from headers alone. */
import type { ServiceError } from "../../base/errors.ts";
import type { Call } from "../calls/call.ts";
import { refusalHeaders, toEnvelope } from "../calls/errors.ts";
import { isRpcRequest, type Written, writeRpcRefusal } from "../connect/rpc-refusal.ts";

/** Writes the refusal, and notes it on the call. */
export function writeRefusal(
  service: string,
  call: Call,
  refusal: ServiceError,
  url: string,
  contentType: string,
): Written {
  if (!isRpcRequest(url, contentType)) return writeEnvelope(service, call, refusal);
  const written = writeRpcRefusal(service, call, refusal, contentType);
  // Trailers alone are an answer of gRPC, and one frame less.
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
