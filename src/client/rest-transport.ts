/** The JSON routes as a Connect transport: the same typed calls, over plain HTTP and JSON. */
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromJsonString,
  getOption,
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
import { http } from "../../gen/google/api/annotations_pb.ts";
import { file_platform_sdk_v1_common } from "../../gen/platform/sdk/v1/common_pb.ts";
import { file_platform_sdk_v1_discovery } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { file_platform_sdk_v1_evidence } from "../../gen/platform/sdk/v1/evidence_pb.ts";
import { file_platform_sdk_v1_protection } from "../../gen/platform/sdk/v1/protection_pb.ts";
import { file_platform_sdk_v1_registration } from "../../gen/platform/sdk/v1/registration_pb.ts";
import { messageEncoder } from "../transport/rest/encode.ts";
import { createRestRegistry } from "../transport/rest/registry.ts";
import { exchange, fetchHttpClient, type HttpAnswer, type HttpClient } from "./http.ts";
import { refusalOf } from "./rest-refusal.ts";

export interface RestTransportOptions {
  /** Base URL of the service, such as `https://platform.example.com`. */
  readonly baseUrl: string;
  /** Default: `fetch`. */
  readonly http?: HttpClient;
  /** First is outermost. */
  readonly interceptors?: readonly Interceptor[];
  /** Time for a call that sets none itself, in milliseconds. Default 30,000. */
  readonly defaultTimeoutMs?: number;
}

const files = [
  file_platform_sdk_v1_common,
  file_platform_sdk_v1_discovery,
  file_platform_sdk_v1_protection,
  file_platform_sdk_v1_registration,
  file_platform_sdk_v1_evidence,
];

/** Makes the transport. It has no streams; neither have the platform's methods. */
export function createRestTransport(options: RestTransportOptions): Transport {
  const { baseUrl, http: client = fetchHttpClient(), interceptors = [], defaultTimeoutMs = 30_000 } = options;
  const registry = createRestRegistry(files);
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
          const text = messageEncoder(registry.message(method.input))(request.message);
          const answer = await send(client, request, route.verb === "POST" ? text : undefined);
          return {
            stream: false,
            service: method.parent,
            method,
            header: answer.headers,
            trailer: new Headers(),
            message: decode(registry.message(method.output), method.output, answer),
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

function decode<Desc extends DescMessage>(spelled: DescMessage, desc: Desc, answer: HttpAnswer): MessageShape<Desc> {
  if (answer.status !== 200) throw refusalOf(answer);
  try {
    // A newer service may say more than this client knows.
    return create(desc, fromJsonString(spelled, answer.text, { ignoreUnknownFields: true }) as MessageInitShape<Desc>);
  } catch (cause) {
    throw new ConnectError("the answer is not one of the platform's", Code.Internal, undefined, undefined, cause);
  }
}
