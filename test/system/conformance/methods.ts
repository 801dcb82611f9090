/** What the suite's unary methods do: answer as the request itself says, and tell what came in. */
import { create, type DescMessage, type FileRegistry, fromBinary, type Message } from "@bufbuild/protobuf";
import { type Any, anyPack } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { ServiceError } from "../../../src/base/errors.ts";
import type { UnarySpec } from "../../../src/transport/calls/methods.ts";

interface Header {
  readonly name: string;
  readonly value: readonly string[];
}

/** `UnaryResponseDefinition`, as far as servers go by it. */
interface Definition {
  readonly responseHeaders: readonly Header[];
  readonly responseTrailers: readonly Header[];
  readonly responseDelayMs: number;
  readonly response:
    | { readonly case: "responseData"; readonly value: Uint8Array }
    | { readonly case: "error"; readonly value: WantedError }
    | { readonly case: undefined };
}

interface WantedError {
  readonly code: number;
  readonly message?: string;
  readonly details: readonly Any[];
}

type Asked = Message & { readonly responseDefinition?: Definition };

/**
 * A refusal that leaves with what the suite wants it to have. The product's own refusals have a closed list of codes and
 * details of their own: see `replacements` in server.ts.
 */
export class WantedRefusal extends ServiceError {
  readonly wanted: ConnectError;

  constructor(wanted: ConnectError) {
    super("internal", wanted.rawMessage);
    this.wanted = wanted;
    // The adapters look for the refusal behind an error.
    wanted.cause = this;
  }
}

/** The unary methods of the suite by name. */
export function conformanceMethods(registry: FileRegistry): ReadonlyMap<string, UnarySpec["impl"]> {
  const answer = async (request: Message, context: HandlerContext) => {
    const { responseDefinition: definition } = request as Asked;
    for (const { name, value } of definition?.responseHeaders ?? [])
      for (const one of value) context.responseHeader.append(name, one);
    for (const { name, value } of definition?.responseTrailers ?? [])
      for (const one of value) context.responseTrailer.append(name, one);
    if (definition !== undefined && definition.responseDelayMs > 0)
      await new Promise((resolve) => setTimeout(resolve, definition.responseDelayMs));
    if (definition?.response.case === "error")
      throw refusalOf(registry, definition.response.value, requestInfo(registry, context, request));
    const data = definition?.response.case === "responseData" ? definition.response.value : new Uint8Array();
    return { payload: { data, requestInfo: requestInfo(registry, context, request) } } as never;
  };
  return new Map<string, UnarySpec["impl"]>([
    ["Unary", answer],
    ["IdempotentUnary", answer],
    [
      "Unimplemented",
      () => {
        throw new WantedRefusal(new ConnectError("there is no such method here", Code.Unimplemented));
      },
    ],
  ]);
}

/** The error that is asked for, with what came in as its last detail. */
function refusalOf(registry: FileRegistry, { code, message = "", details }: WantedError, info: object): WantedRefusal {
  const wanted = new ConnectError(message, code as Code);
  for (const { typeUrl, value } of details) {
    const desc = described(registry, typeUrl.slice(typeUrl.lastIndexOf("/") + 1));
    wanted.details.push({ desc, value: fromBinary(desc, value) as never });
  }
  const desc = described(registry, "connectrpc.conformance.v1.ConformancePayload.RequestInfo");
  wanted.details.push({ desc, value: create(desc, info as never) as never });
  return new WantedRefusal(wanted);
}

function described(registry: FileRegistry, name: string): DescMessage {
  const desc = registry.getMessage(name);
  if (desc === undefined) throw new Error(`the suite has no ${name}`);
  return desc;
}

function requestInfo(registry: FileRegistry, context: HandlerContext, request: Message): object {
  const { requestHeader, requestMethod, url, method } = context;
  const timeoutMs = context.timeoutMs();
  const query = [...new URL(url, "http://localhost").searchParams].map(([name, value]) => ({ name, value: [value] }));
  return {
    requestHeaders: [...requestHeader].map(([name, value]) => ({ name, value: [value] })),
    ...(timeoutMs !== undefined && { timeoutMs: BigInt(Math.max(0, Math.ceil(timeoutMs))) }),
    requests: [packed(registry, method.input, request)],
    ...(requestMethod === "GET" && { connectGetInfo: { queryParams: query } }),
  };
}

function packed(registry: FileRegistry, desc: DescMessage, request: Message): Any {
  const found = described(registry, desc.typeName);
  return anyPack(found, create(found, request as never));
}
