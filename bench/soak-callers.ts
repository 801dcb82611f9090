/** Callers that never rest: each makes one call after the other, on a route and a protocol drawn at random. */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { DescMethodUnary } from "@bufbuild/protobuf";
import { ConnectError, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { sampleCalls } from "../dev/requests.ts";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { decodeRequest } from "../src/transport/rest/codec.ts";
import { messageEncoder } from "../src/transport/rest/encode.ts";
import { createRestRegistry } from "../src/transport/rest/registry.ts";
import { publicServices } from "../src/transport/services.ts";

/** Where the gateway is now; undefined before it is anywhere. */
export interface Target {
  url: string | undefined;
}

/** What the receipt of an answer promised. */
export interface Acknowledged {
  readonly recordId: string;
  readonly log: string;
  readonly leafIndex: number;
  /** The resource id that only this call carried. */
  readonly resourceId: string;
}

export interface CallerOptions {
  readonly number: number;
  readonly token: string;
  readonly target: Target;
  readonly onAcknowledged: (entry: Acknowledged) => void;
  /** An answer that should not have been given. */
  readonly onProblem: (problem: string) => void;
}

/** Refusals that a gateway may give while it starts or ends. */
const passing: ReadonlySet<string> = new Set([
  "store_unavailable",
  "issuer_unavailable",
  "canceled",
  "deadline_exceeded",
]);
/** Pause after a call that got no answer, in milliseconds. */
const retryMs = 20;
const callTimeoutMs = 10_000;

const recorded = sampleCalls().filter(({ body }) => body !== undefined);
const registry = createRestRegistry(publicServices.flatMap(({ file }) => [file, ...file.dependencies]));
const methods = new Map<string, DescMethodUnary>(
  publicServices.flatMap(({ typeName, methods }) =>
    methods.map((method) => [`${typeName}/${method.name}`, method as DescMethodUnary]),
  ),
);

// biome-ignore lint/suspicious/noExplicitAny: answers of five shapes are read here, by their members' names.
type Answer = any;

/** Makes the call; returns the answer, or the reason of a refusal, or undefined where nobody answered. */
type Ask = (url: string, route: string, rpc: string, body: object) => Promise<Answer | string | undefined>;

/** Starts the callers. `stop` resolves when the last of their calls is over. */
export function createCallers(options: CallerOptions): { stop(): Promise<void> } {
  let stopping = false;
  const protocols = [askRest(options.token), askGrpc(options.token)];
  const work = async () => {
    while (!stopping) {
      const { url } = options.target;
      if (url === undefined || !(await callOnce(url, protocols, options))) await delay(retryMs);
    }
  };
  const all = Promise.all(Array.from({ length: options.number }, work));
  return {
    stop: async () => {
      stopping = true;
      await all;
    },
  };
}

/** True where the gateway answered. */
async function callOnce(url: string, protocols: readonly Ask[], options: CallerOptions): Promise<boolean> {
  const { route, rpc, body } = pick(recorded);
  const resourceId = randomUUID();
  const answer = await pick(protocols)(url, route, rpc, { ...body, resource: { kind: "soak", id: resourceId } });
  if (typeof answer === "object") {
    const receipt = (answer.decision ?? answer.registration ?? answer.ingestion).receipt;
    options.onAcknowledged({
      recordId: receipt.record_id,
      log: receipt.log_origin,
      leafIndex: receipt.leaf_index,
      resourceId,
    });
    return true;
  }
  if (answer !== undefined && !passing.has(answer)) options.onProblem(`${route} was refused: ${answer}`);
  return false;
}

function askRest(token: string): Ask {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return async (url, route, _rpc, body) => {
    try {
      const signal = AbortSignal.timeout(callTimeoutMs);
      const response = await fetch(url + route, { method: "POST", headers, body: JSON.stringify(body), signal });
      const answer = (await response.json()) as Answer;
      return response.ok ? answer : (answer.error.reason as string);
    } catch {
      return undefined;
    }
  };
}

function askGrpc(token: string): Ask {
  const transports = new Map<string, Transport>();
  return async (url, _route, rpc, body) => {
    let transport = transports.get(url);
    if (transport === undefined) {
      transports.clear();
      transport = createGrpcTransport({ baseUrl: url });
      transports.set(url, transport);
    }
    const method = methods.get(rpc);
    if (method === undefined) throw new Error(`${rpc} is not a public method`);
    const request = decodeRequest(registry.message(method.input), Buffer.from(JSON.stringify(body)));
    const headers = { authorization: `Bearer ${token}` };
    try {
      const { message } = await transport.unary(method, undefined, callTimeoutMs, headers, request);
      return JSON.parse(messageEncoder(registry.message(method.output))(message));
    } catch (error) {
      // Only what the service said itself has details.
      return ConnectError.from(error).findDetails(ErrorInfoSchema)[0]?.reason;
    }
  };
}

function pick<Item>(items: readonly Item[]): Item {
  return items[Math.floor(Math.random() * items.length)] as Item;
}
