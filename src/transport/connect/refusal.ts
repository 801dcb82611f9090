/** Rewrites refusals of the Connect plugin from the `ServiceError` behind them. */
import { Code, ConnectError } from "@connectrpc/connect";
import {
  createAsyncIterable,
  encodeEnvelope,
  readAllBytes,
  type UniversalServerResponse,
} from "@connectrpc/connect/protocol";
import { codeToHttpStatus, errorFromJsonBytes, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { findTrailerError, setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { trailerFlag, trailerParse, trailerSerialize } from "@connectrpc/connect/protocol-grpc-web";
import type { ServiceError } from "../../base/errors.ts";
import type { Call } from "../calls/call.ts";
import { fromProtocolError, isUnreadable, toConnectError } from "../calls/errors.ts";

export interface Restating {
  readonly service: string;
  readonly call: Call;
  /** Called if the plugin could not read the message; undefined if there is nothing more specific to report. */
  readonly explain: () => ServiceError | undefined;
}

/** Returns the response unchanged, or with our own form of the refusal if it is one. */
export async function answerRefusal(
  response: UniversalServerResponse,
  restating: Restating,
): Promise<UniversalServerResponse> {
  switch (restating.call.protocol) {
    case "grpc":
      return grpcRefusal(response, restating);
    case "grpc_web":
      return grpcWebRefusal(response, restating);
    default:
      return connectRefusal(response, restating);
  }
}

/** Notes the refusal on the call unless one is noted, and returns it as a Connect error. */
function restate(error: ConnectError, { service, call, explain }: Restating): ConnectError {
  if (call.refusal === undefined) {
    const refusal = fromProtocolError(error);
    // The plugin reports invalid base64 as an internal error.
    const mayBeExplained = isUnreadable(refusal) || refusal.reason === "internal";
    call.refusal = (mayBeExplained ? explain() : undefined) ?? refusal;
  }
  const restated = toConnectError(service, call.requestId, call.refusal);
  // The refusal of a message encoding lists the supported ones in a header.
  error.metadata.forEach((value, name) => {
    if (name.endsWith("accept-encoding")) restated.metadata.set(name, value);
  });
  return restated;
}

async function grpcRefusal(response: UniversalServerResponse, restating: Restating): Promise<UniversalServerResponse> {
  const trailer = response.trailer ?? new Headers();
  const error = findTrailerError(trailer);
  if (error === undefined) return response;
  const restated = setTrailerStatus(new Headers(), restate(withMetadata(error, trailer), restating));
  return { ...response, trailer: restated };
}

async function grpcWebRefusal(
  response: UniversalServerResponse,
  restating: Restating,
): Promise<UniversalServerResponse> {
  if (response.body === undefined) return response;
  const bytes = await readAllBytes(response.body, Number.MAX_SAFE_INTEGER);
  const first = bytes[0] ?? 0;
  const trailer = (first & trailerFlag) === 0 ? undefined : trailerParse(bytes.subarray(5));
  const error = trailer && findTrailerError(trailer);
  if (trailer === undefined || error === undefined) return { ...response, body: createAsyncIterable([bytes]) };
  const restated = setTrailerStatus(new Headers(), restate(withMetadata(error, trailer), restating));
  const body = encodeEnvelope(trailerFlag, trailerSerialize(restated));
  return { ...response, body: createAsyncIterable([body]) };
}

async function connectRefusal(
  response: UniversalServerResponse,
  restating: Restating,
): Promise<UniversalServerResponse> {
  if (response.status === 200 || response.body === undefined) return response;
  const bytes = await readAllBytes(response.body, Number.MAX_SAFE_INTEGER);
  const error = errorFromJsonBytes(bytes, undefined, new ConnectError("unreadable error", Code.Internal));
  const header = new Headers(response.header);
  const restated = restate(withMetadata(error, header), restating);
  for (const [name, value] of restated.metadata) header.set(name, value);
  const body = errorToJsonBytes(restated, undefined);
  header.set("content-length", String(body.byteLength));
  return { ...response, status: codeToHttpStatus(restated.code), header, body: createAsyncIterable([body]) };
}

function withMetadata(error: ConnectError, headers: Headers): ConnectError {
  return new ConnectError(error.rawMessage, error.code, headers);
}
