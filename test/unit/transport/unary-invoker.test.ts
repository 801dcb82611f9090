import { create, type Message } from "@bufbuild/protobuf";
import { createContextKey, createContextValues, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { invokeUnaryImplementation } from "@connectrpc/connect/protocol";
import { describe, expect, test } from "vitest";
import {
  DiscoveryService,
  WhoAmIRequestSchema,
  WhoAmIResponseSchema,
} from "../../../gen/platform/sdk/v1/discovery_pb.ts";
import type { UnarySpec } from "../../../src/transport/calls/context.ts";
import { unaryInvoker } from "../../../src/transport/calls/unary-invoker.ts";

const key = createContextKey("none");
const method = DiscoveryService.method.whoAmI;

function contextOf(): HandlerContext {
  return {
    method,
    service: DiscoveryService,
    requestMethod: "POST",
    protocolName: "grpc",
    url: "/rpc",
    signal: new AbortController().signal,
    timeoutMs: () => 5,
    requestHeader: new Headers({ "x-own": "given" }),
    responseHeader: new Headers(),
    responseTrailer: new Headers(),
    values: createContextValues().set(key, "given"),
  };
}

type Invoke = (
  spec: UnarySpec,
  context: HandlerContext,
  request: Message,
  interceptors: Interceptor[],
) => Promise<Message>;

const ways: readonly (readonly [string, Invoke])[] = [
  ["ours", (spec, context, request, interceptors) => unaryInvoker(spec, interceptors)(context, request)],
  ["Connect's", invokeUnaryImplementation],
];

/** Everything that interceptors and the handler see of a call, and its answer. */
async function trace(invoke: Invoke, context: HandlerContext, change: (request: object) => object, answer: object) {
  const seen: Record<string, unknown>[] = [];
  const watch =
    (name: string): Interceptor =>
    (next) =>
    async (request) => {
      // What the seam passes along for itself is nobody's concern.
      const { original: _own, ...plain } = request as typeof request & { readonly original?: unknown };
      seen.push({ name, ...plain });
      const response = await next(change(request) as typeof request);
      response.header.set("x-answered", name);
      seen.push({ name, ...response });
      return response;
    };
  const impl = (request: Message, handed: HandlerContext) => {
    seen.push({ name: "handler", request, ...handed, value: handed.values.get(key) });
    handed.responseTrailer.set("x-trailer", "1");
    return answer;
  };
  const spec = { kind: "unary", method, impl } as unknown as UnarySpec;
  const message = await invoke(spec, context, create(WhoAmIRequestSchema), [watch("outer"), watch("inner")]);
  return { seen, message, header: [...context.responseHeader], trailer: [...context.responseTrailer] };
}

describe("a call through the seam is what it is through Connect", () => {
  const values = createContextValues().set(key, "changed");
  const { signal } = new AbortController();
  test.each<[string, (request: object) => object]>([
    ["as it is", (request) => request],
    ["with a copy of the request", (request) => ({ ...request })],
    ["with another signal", (request) => ({ ...request, signal })],
    ["with other headers", (request) => ({ ...request, header: new Headers({ "x-own": "changed" }) })],
    ["with other values", (request) => ({ ...request, contextValues: values })],
    ["with another message", (request) => ({ ...request, message: create(WhoAmIRequestSchema) })],
  ])("%s", async (_name, change) => {
    const context = contextOf();
    const answer = create(WhoAmIResponseSchema, { service: "svc" });
    const [ours, theirs] = await Promise.all(
      ways.map(([, invoke]) => {
        const { responseHeader: _header, responseTrailer: _trailer, ...common } = context;
        const fresh = { ...common, responseHeader: new Headers(), responseTrailer: new Headers() };
        return trace(invoke, fresh, change, answer);
      }),
    );
    expect(ours).toEqual(theirs);
    expect(ours?.seen).toHaveLength(5);
  });

  test.each(ways)("an answer without its type becomes a message of it: %s", async (_name, invoke) => {
    const { message } = await trace(invoke, contextOf(), (request) => request, { service: "svc" });
    expect(message).toEqual(create(WhoAmIResponseSchema, { service: "svc" }));
  });

  test.each(ways)("what the handler throws comes out as it is: %s", async (_name, invoke) => {
    const thrown = new Error("boom");
    for (const impl of [
      () => Promise.reject(thrown),
      () => {
        throw thrown;
      },
    ]) {
      const spec = { kind: "unary", method, impl } as unknown as UnarySpec;
      await expect(invoke(spec, contextOf(), create(WhoAmIRequestSchema), [])).rejects.toBe(thrown);
    }
  });
});
