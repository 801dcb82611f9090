/** Refusals on the Connect plugin's protocols, written anew from the `ServiceError` behind them. */
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

/** Whose refusals are written anew, and how. */
export interface Restating {
  readonly service: string;
  readonly call: Call;
  /** Asked where the plugin could not read the message; undefined where nothing more can be said of it. */
  readonly explain: () => ServiceError | undefined;
}

/** The response as it is, or, where it is a refusal, the same refusal in our words and with our details. */
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

/** Notes the refusal on the call, where none is noted yet, and returns it as Connect carries it. */
function restate(error: ConnectError, { service, call, explain }: Restating): ConnectError {
  if (call.refusal === undefined) {
    const refusal = fromProtocolError(error);
    // What is not base64 the plugin takes for a defect of its own.
    const mayBeExplained = isUnreadable(refusal) || refusal.reason === "internal";
    call.refusal = (mayBeExplained ? explain() : undefined) ?? refusal;
  }
  const restated = toConnectError(service, call.requestId, call.refusal);
  // A message encoding that is refused names the supported ones in a header of its own.
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
