/** The header that every answer begins with (specification, section 2.3), and who is calling. */
import type { Message } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type { Caller as CallerMessage } from "../../../gen/platform/sdk/v1/common_pb.ts";
import type { Caller } from "../../base/caller.ts";
import type { CallIdentity } from "../../domain/record.ts";
import { callerOf, callOf } from "../calls/call.ts";

export interface Envelope {
  readonly service: string;
  readonly status: "ready" | "ok";
  readonly caller: CallerMessage;
}

export function envelope(service: string, caller: Caller, status: Envelope["status"] = "ready"): Envelope {
  const { tenantId, principalId, subject, authSource, scopes } = caller;
  const $typeName = "platform.sdk.v1.Caller";
  const message = { $typeName, tenantId, principalId, subject, authSource, scopes: forMessage(scopes) } as const;
  return { service, status, caller: message };
}

export function identityOf(context: HandlerContext): CallIdentity {
  const { requestId, idempotencyKey } = callOf(context);
  return { caller: callerOf(context), requestId, idempotencyKey };
}

/** Init shapes of protobuf-es want arrays that may be written to; the domain's may not. */
export type Mutable<T> = T extends string | number | boolean | bigint | undefined | Message
  ? T
  : { -readonly [Key in keyof T]: Mutable<T[Key]> };

/** Gives the domain's answer to the message, which copies nothing and is only encoded. */
export function forMessage<T>(value: T): Mutable<T> {
  return value as Mutable<T>;
}
