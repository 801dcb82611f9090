/**
 * The one place where a unary call is made, whichever adapter carried it. This is also the only file that uses
 * functions which Connect exports as private; the packages are pinned to exact versions for their sake.
 */
import type { Message } from "@bufbuild/protobuf";
import type { HandlerContext, Interceptor } from "@connectrpc/connect";
import { invokeUnaryImplementation } from "@connectrpc/connect/protocol";
import type { UnarySpec } from "./context.ts";

/** Calls the implementation through the interceptors. Rejects with a `ConnectError`. */
export function invokeUnary(
  spec: UnarySpec,
  context: HandlerContext,
  request: Message,
  interceptors: Interceptor[],
): Promise<Message> {
  return invokeUnaryImplementation(spec, context, request, interceptors);
}
