/** The JSON routes as a Connect transport: the same typed calls, over plain HTTP and JSON. */
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  getOption,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createContextValues,
  type Interceptor,
  type Transport,
  type UnaryRequest,
} from "@connectrpc/connect";
import { runUnaryCall } from "@connectrpc/connect/protocol";
import { http } from "../../../gen/google/api/annotations_pb.ts";
import { exchange, fetchHttpClient, type HttpAnswer, type HttpClient } from "./http.ts";
import { parseJson } from "./json.ts";
import { fromRouteJson, toRouteJson } from "./json-spelling.ts";
import { refusalOf } from "./rest-refusal.ts";

export interface RestTransportOptions {
  /** Base URL of the service, such as `https://platform.example.com`. */
  readonly baseUrl: string;
  /** Default: `fetch`. */
  readonly http?: HttpClient;
  /** First is outermost. */
  readonly interceptors?: readonly Interceptor[];
  /** Default time for a call, in milliseconds. Default 30,000. */
  readonly defaultTimeoutMs?: number;
}

/** Creates the transport. It has no streams, which the platform's methods do not need. */
export function createRestTransport(options: RestTransportOptions): Transport {
  const { baseUrl, http: client = fetchHttpClient(), interceptors = [], defaultTimeoutMs = 30_000 } = options;
  const base = baseUrl.replace(/\/$/, "");
  return {
    async unary(method, signal, timeoutMs, header, input, contextValues) {
      const route = routeOf(method);
      return runUnaryCall({
        interceptors: [...interceptors],
        timeoutMs: timeoutMs ?? defaultTimeoutMs,
        ...(signal !== undefined && { signal }),
        req: {
          stream: false,
          service: method.parent,
          method,
          requestMethod: route.verb,
          url: base + route.path,
          header: new Headers(header),
          contextValues: contextValues ?? createContextValues(),
          message: input as MessageInitShape<typeof method.input>,
        },
        next: async (request) => {
          const message = create(method.input, request.message as MessageInitShape<typeof method.input>);
          const text = route.verb === "POST" ? JSON.stringify(toRouteJson(method.input, message)) : undefined;
          const answer = await send(client, request, text);
          return {
            stream: false,
            service: method.parent,
            method,
            header: answer.headers,
            trailer: new Headers(),
            message: decode(method.output, answer),
          };
        },
      });
    },
    async stream() {
      throw new ConnectError("the JSON routes have no streams", Code.Unimplemented);
    },
  };
}

function routeOf(method: DescMethodUnary): { readonly verb: "GET" | "POST"; readonly path: string } {
  const { pattern } = getOption(method, http);
  if (pattern.case === "get") return { verb: "GET", path: pattern.value };
  if (pattern.case === "post") return { verb: "POST", path: pattern.value };
  throw new ConnectError(`${method.name} has no JSON route`, Code.Unimplemented);
}

function send(client: HttpClient, { url, header, signal, requestMethod }: UnaryRequest, body: string | undefined) {
  const headers = new Headers(header);
  headers.set("accept", "application/json");
  if (body !== undefined) headers.set("content-type", "application/json");
  return exchange(client, { url, method: requestMethod, headers, signal, ...(body !== undefined && { body }) });
}

function decode<Desc extends DescMessage>(desc: Desc, answer: HttpAnswer): MessageShape<Desc> {
  if (answer.status !== 200) throw refusalOf(answer);
  try {
    return fromRouteJson(desc, parseJson(answer.text) as JsonValue);
  } catch (cause) {
    throw new ConnectError("the answer is not one of the platform's", Code.Internal, undefined, undefined, cause);
  }
}
