/** What a caller must be allowed, besides being known. */
import type { Caller } from "../base/caller.ts";
import { ServiceError } from "../base/errors.ts";
import { insufficientScope, type TokenScheme, underDpop } from "./challenge.ts";
import type { InboundRequest } from "./inbound-request.ts";

/**
 * Refuses a caller that lacks one of the scopes. Scopes are compared byte for byte; none implies another.
 * @param scheme under which the caller presented its token: the challenge is for the same
 * @throws ServiceError `missing_scope`, which names the required and the missing ones
 */
export function requireScopes(caller: Caller, required: readonly string[], scheme: TokenScheme = "Bearer"): void {
  const missing = required.filter((scope) => !caller.scopes.includes(scope));
  if (missing.length === 0) return;
  const refusal = insufficientScope(required, missing);
  throw scheme === "DPoP" ? underDpop(refusal) : refusal;
}

/**
 * A caller need not repeat its tenant; where a tenant header is forwarded, every value of it must equal the tenant of
 * the credentials byte for byte (specification 5.5). Two values joined by a comma equal nothing.
 * @param headerName lowercase
 * @throws ServiceError `tenant_mismatch`
 */
export function matchTenantHeader(caller: Caller, inbound: InboundRequest, headerName: string): void {
  if (inbound.headerValues(headerName).every((value) => value === caller.tenantId)) return;
  throw new ServiceError("tenant_mismatch", "the tenant header differs from the tenant of the credentials");
}
