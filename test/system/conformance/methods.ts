/** What the suite's unary methods do: answer as the request itself says, and tell what came in. */
import { create, type DescMessage, type FileRegistry, type Message } from "@bufbuild/protobuf";
import { type Any, anyPack } from "@bufbuild/protobuf/wkt";
import type { HandlerContext } from "@connectrpc/connect";
import { type ErrorCode, ServiceError } from "../../../src/base/errors.ts";
import type { UnarySpec } from "../../../src/transport/calls/context.ts";

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
    | { readonly case: "error"; readonly value: { readonly code: number; readonly message?: string } }
    | { readonly case: undefined };
}

type Asked = Message & { readonly responseDefinition?: Definition };

/** By number, from 1 (https://connectrpc.com/docs/protocol#error-codes). */
const codes = (
  "canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied resource_exhausted " +
  "failed_precondition aborted out_of_range unimplemented internal unavailable data_loss unauthenticated"
).split(" ");

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
    if (definition?.response.case === "error") throw refusalOf(definition.response.value);
    const data = definition?.response.case === "responseData" ? definition.response.value : new Uint8Array();
    return { payload: { data, requestInfo: requestInfo(registry, context, request) } } as never;
  };
  return new Map<string, UnarySpec["impl"]>([
    ["Unary", answer],
    ["IdempotentUnary", answer],
    [
      "Unimplemented",
      () => {
        throw new ServiceError("method_not_allowed", "there is no such method here");
      },
    ],
  ]);
}

/** The product's handlers throw refusals, of a closed list. */
function refusalOf({ code, message = "" }: { readonly code: number; readonly message?: string }): ServiceError {
  return new ServiceError("internal", message, { code: codes[code - 1] as ErrorCode });
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
  const found = registry.getMessage(desc.typeName);
  if (found === undefined) throw new Error(`${desc} is not of the suite`);
  return anyPack(found, create(found, request as never));
}
