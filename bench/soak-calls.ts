import { ConnectError, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { messageEncoder } from "../dev/rest-json.ts";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { readJson } from "../src/transport/codec/json-reader.ts";
import { methodOf, registry } from "./calls.ts";

// biome-ignore lint/suspicious/noExplicitAny: answers of nine shapes are read here, by their members' names.
export type Answer = any;

export interface Call {
  readonly url: string;
  readonly route: string;
  readonly rpc: string;
  readonly headers: Readonly<Record<string, string>>;
  /** In the form of the JSON route; absent on GET. */
  readonly body?: object | undefined;
}

/** The answer, or the reason of a refusal, or undefined if there was no answer. */
export type Outcome = Answer | string | undefined;

const callTimeoutMs = 10_000;

export async function callRest({ url, route, headers, body }: Call): Promise<Outcome> {
  try {
    const response = await fetch(url + route, {
      headers: { ...headers, ...(body && { "content-type": "application/json" }) },
      ...(body && { method: "POST", body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(callTimeoutMs),
    });
    const answer = (await response.json()) as Answer;
    return response.ok ? answer : (answer.error.reason as string);
  } catch {
    return undefined;
  }
}

export function grpcCaller(): (call: Call) => Promise<Outcome> {
  const transports = new Map<string, Transport>();
  return async ({ url, rpc, headers, body }) => {
    const method = methodOf(rpc);
    let transport = transports.get(url);
    if (transport === undefined) {
      transport = createGrpcTransport({ baseUrl: url });
      transports.set(url, transport);
    }
    const request = readJson(method.input, Buffer.from(JSON.stringify(body ?? {})), "rest");
    try {
      const { message } = await transport.unary(method, undefined, callTimeoutMs, headers, request);
      return JSON.parse(messageEncoder(registry.message(method.output))(message));
    } catch (error) {
      // Only the service's own errors have details.
      return ConnectError.from(error).findDetails(ErrorInfoSchema)[0]?.reason;
    }
  };
}
