/**
 * Spans of calls by the semantic conventions of OpenTelemetry 1.45: RPC
 * (https://opentelemetry.io/docs/specs/semconv/rpc/) for gRPC, gRPC-Web and Connect, HTTP
 * (https://opentelemetry.io/docs/specs/semconv/http/http-spans/) for the JSON routes. Text of the caller (unknown
 * paths, queries, headers) is left out.
 */
import type { DescService } from "@bufbuild/protobuf";
import type { ErrorCode } from "../../base/errors.ts";
import type { SpanAttributes } from "../../base/trace.ts";
import type { Answered } from "./call.ts";
import type { ServedMethod } from "./methods.ts";
import { isProbe } from "./report.ts";

/** Codes that count as server errors (conventions for gRPC, `rpc.status_code`). */
const serverErrors: ReadonlySet<ErrorCode> = new Set([
  "deadline_exceeded",
  "unimplemented",
  "internal",
  "unavailable",
] satisfies ErrorCode[]);

const knownVerbs: ReadonlySet<string> = new Set([
  ...["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"],
]);

type Described = readonly [name: string, attributes: SpanAttributes, failed: string | undefined];

/**
 * Returns a function that ends the spans of calls. Health probes are not traced: they would be most of the spans.
 *
 * @param rpcServices services whose methods have no JSON route
 */
export function createCallSpans(
  methods: readonly ServedMethod[],
  rpcServices: readonly DescService[],
  scheme: "http" | "https",
): (answered: Answered) => void {
  const served = new Map(methods.map((method) => [method.rpc, method]));
  const names = new Map([
    ...methods.map(({ rpc, rpcPath }) => [rpc, rpcPath.slice(1)] as const),
    ...rpcServices.flatMap(({ name, typeName, methods: others }) =>
      others.map((method) => [`${name}/${method.name}`, `${typeName}/${method.name}`] as const),
    ),
  ]);
  return (answered) => {
    const { call } = answered;
    if (call.span === undefined) return;
    if (isProbe(call.rpc)) return call.span.drop();
    const { protocol = "rest", rpc = "" } = call;
    const [name, attributes, failed] =
      protocol === "rest"
        ? describeHttp(answered, served.get(rpc), scheme)
        : describeRpc(answered, names.get(rpc), protocol);
    call.span.finish(name, { ...attributes, ...common(answered) }, failed);
  };
}

function describeHttp({ call, status }: Answered, served: ServedMethod | undefined, scheme: string): Described {
  const { method } = call.inbound;
  const verb = knownVerbs.has(method) ? method : "_OTHER";
  const name = verb === "_OTHER" ? "HTTP" : verb;
  const isAnswered = call.refusal?.reason !== "canceled";
  const attributes = {
    "http.request.method": verb,
    "url.scheme": scheme,
    ...(served !== undefined && { "http.route": served.restPath, "url.path": served.restPath }),
    ...(isAnswered && { "http.response.status_code": status }),
  };
  const failed = isAnswered && status >= 500 ? String(status) : undefined;
  return [served === undefined ? name : `${name} ${served.restPath}`, attributes, failed];
}

function describeRpc(
  { call: { refusal } }: Answered,
  method: string | undefined,
  protocol: "connect" | "grpc" | "grpc_web",
): Described {
  const system = protocol === "connect" ? "connectrpc" : "grpc";
  const status = refusal === undefined ? undefined : statusOf(refusal.code, protocol);
  const isOfGrpc = protocol !== "connect";
  const attributes = {
    "rpc.system.name": system,
    "rpc.method": method ?? "_OTHER",
    // Connect has no code for success.
    ...(status === undefined ? isOfGrpc && { "rpc.status_code": "OK" } : { "rpc.status_code": status }),
  };
  const failed = refusal !== undefined && serverErrors.has(refusal.code) ? status : undefined;
  return [method ?? system, attributes, failed];
}

/** gRPC's own name of the code (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md), or Connect's. */
function statusOf(code: ErrorCode, protocol: "connect" | "grpc" | "grpc_web"): string {
  if (protocol === "connect") return code;
  return code === "canceled" ? "CANCELLED" : code.toUpperCase();
}

function common({ call, httpVersion }: Answered): SpanAttributes {
  const { rpc, refusal, caller, ticket, inbound } = call;
  return {
    "network.peer.address": inbound.remoteAddress,
    "network.protocol.name": "http",
    "network.protocol.version": httpVersion === "2.0" ? "2" : httpVersion,
    ...(rpc !== undefined && { "svc.rpc": rpc }),
    ...(refusal !== undefined && { "svc.refusal.reason": refusal.reason }),
    ...(caller !== undefined && { "svc.tenant.id": caller.tenantId }),
    ...(ticket !== undefined && { "svc.admission.wait_ms": ticket.waitedMs }),
  };
}
