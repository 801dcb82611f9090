/** One call over each protocol, each with its answer or refusal in the spelling of the JSON routes. */
import { create, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import { ConnectError, type Transport } from "@connectrpc/connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { Client, credentials, type ServiceError as GrpcJsError, Metadata } from "@grpc/grpc-js";
import { refusalInEnvelope, refusalOf, type WireRefusal } from "./grpc.ts";
import { restAnswerOf, restTextOf, type WireMethod } from "./methods.ts";

export type Outcome =
  // biome-ignore lint/suspicious/noExplicitAny: tests read members of eight shapes, and fail where they are not there.
  { readonly answer: any } | { readonly refusal: WireRefusal };

/** The answer of a call that went well. */
// biome-ignore lint/suspicious/noExplicitAny: tests read members of eight shapes, and fail where they are not there.
export function answerOf(outcome: Outcome): any {
  if ("answer" in outcome) return outcome.answer;
  throw new Error(`refused: ${JSON.stringify(outcome.refusal)}`);
}

export interface WireClient {
  readonly name: string;
  call(method: WireMethod, request: Message, headers: Readonly<Record<string, string>>): Promise<Outcome>;
}

/** A client for every protocol, and an independent one for gRPC. Their connections end when the service stops. */
export function wireClients(url: string): readonly WireClient[] {
  return [
    restClient(url),
    connectClient("Connect JSON", createConnectTransport({ baseUrl: url, httpVersion: "1.1" })),
    connectClient("Connect binary", createConnectTransport({ baseUrl: url, httpVersion: "2", useBinaryFormat: true })),
    connectClient("gRPC-Web", createGrpcWebTransport({ baseUrl: url, httpVersion: "1.1" })),
    connectClient("gRPC", createGrpcTransport({ baseUrl: url })),
    grpcJsClient(url),
  ];
}

function restClient(url: string): WireClient {
  return {
    name: "REST",
    async call(method, request, headers) {
      const response = await fetch(url + method.restPath, {
        method: method.verb,
        headers: { ...headers, ...(method.verb === "POST" && { "content-type": "application/json" }) },
        ...(method.verb === "POST" && { body: restTextOf(method.desc.input, request) }),
      });
      const body = JSON.parse(await response.text());
      if (response.status === 200) return { answer: body };
      return { refusal: refusalInEnvelope(body) };
    },
  };
}

function connectClient(name: string, transport: Transport): WireClient {
  return {
    name,
    async call(method, request, headers) {
      try {
        const { message } = await transport.unary(method.desc, undefined, undefined, headers, request);
        return { answer: restAnswerOf(method, message) };
      } catch (error) {
        return { refusal: refusalOf(ConnectError.from(error)) };
      }
    },
  };
}

/** An implementation that shares nothing with ours but the generated messages. */
function grpcJsClient(url: string): WireClient {
  const client = new Client(new URL(url).host, credentials.createInsecure());
  return {
    name: "grpc-js",
    call: ({ rpcPath, desc, ...method }, request, headers) =>
      new Promise((resolve) => {
        const metadata = new Metadata();
        for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
        client.makeUnaryRequest<Message, Message>(
          rpcPath,
          (message) => Buffer.from(toBinary(desc.input, message)),
          (bytes) => fromBinary(desc.output, bytes),
          request,
          metadata,
          (error, message) =>
            resolve(
              error === null
                ? { answer: restAnswerOf({ rpcPath, desc, ...method }, message ?? create(desc.output)) }
                : { refusal: grpcJsRefusal(error) },
            ),
        );
      }),
  };
}

function grpcJsRefusal({ code, details, metadata }: GrpcJsError): WireRefusal {
  const [status] = metadata.get("grpc-status-details-bin");
  const trailer = new Headers({ "grpc-status": String(code), "grpc-message": encodeURIComponent(details) });
  if (status !== undefined) trailer.set("grpc-status-details-bin", Buffer.from(status).toString("base64"));
  const error = findTrailerError(trailer);
  if (error === undefined) throw new Error("a refusal without a status");
  return refusalOf(error);
}
