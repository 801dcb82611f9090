/** The JSON routes of the scripted server. */
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { create, type JsonObject } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { fromRouteJson, toRouteJson } from "../typescript/src/json-spelling.ts";
import { type Arrival, answer, type ServerState } from "./calls.ts";
import { methods } from "./requests.ts";

export async function serveJson(
  state: ServerState,
  arrival: Arrival,
  request: Http2ServerRequest,
  response: Http2ServerResponse,
): Promise<void> {
  const { route } = arrival.seen;
  const body = Buffer.concat(await request.toArray()).toString("utf8");
  if (route === undefined || route === "stream/events" || route === "stream/registrations")
    return void response.writeHead(404).end();
  const { input, output } = methods[route];
  const headers = new Headers({ "content-type": "application/json", "cache-control": "no-store" });
  let status = 200;
  let json: JsonObject;
  try {
    const message = body === "" ? create(input) : fromRouteJson(input, JSON.parse(body));
    const { act } = arrival;
    const isNewer = act.does === "answer" && act.newer === true;
    json = toRouteJson(output, await answer(state, arrival, message, headers));
    if (isNewer) json = { ...json, a_newer_member: { of: ["a newer service"] } };
  } catch (thrown) {
    if (arrival.act.does === "commit-and-reset") return;
    const error = ConnectError.from(thrown);
    for (const [name, value] of error.metadata) headers.set(name, value);
    json = envelopeOf(error);
    status = statuses[codeToString(error.code)] ?? 500;
  }
  response.writeHead(status, Object.fromEntries(headers)).end(JSON.stringify(json));
}

const statuses: Readonly<Record<string, number>> = {
  unauthenticated: 401,
  permission_denied: 403,
  invalid_argument: 400,
  already_exists: 409,
  resource_exhausted: 429,
  unavailable: 503,
  deadline_exceeded: 504,
};

function envelopeOf(error: ConnectError): JsonObject {
  const info = error.findDetails(ErrorInfoSchema)[0];
  const violations = error
    .findDetails(BadRequestSchema)
    .flatMap(({ fieldViolations }) => fieldViolations)
    .map(({ field, reason, description }) => ({ field, rule: reason, message: description }));
  const retryAfter = error.metadata.get("retry-after");
  const missing = info?.metadata.missing_scopes;
  return {
    service: "svc-platform-api",
    status: "error",
    error: {
      code: codeToString(error.code),
      reason: info?.reason ?? "internal",
      message: error.rawMessage,
      request_id: info?.metadata.request_id ?? "",
      ...(violations.length > 0 && { violations }),
      ...(missing !== undefined && { missing_scopes: missing.split(" ") }),
      ...(retryAfter !== null && { retry_after_seconds: Number(retryAfter) }),
    },
  };
}
