/** Checks of what an authenticated caller may do. */
import type { Caller } from "../base/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import { insufficientScope, type TokenScheme, underDpop } from "./challenge.ts";

/**
 * Refuses a caller without all of the scopes. Scopes are compared byte for byte; none implies another.
 * @param scheme of the caller's token, for the challenge
 * @throws ServiceError `missing_scope`, which names the required and the missing scopes
 */
export function requireScopes(caller: Caller, required: readonly string[], scheme: TokenScheme = "Bearer"): void {
  const missing = required.filter((scope) => !caller.scopes.includes(scope));
  if (missing.length === 0) return;
  const refusal = insufficientScope(required, missing);
  throw scheme === "DPoP" ? underDpop(refusal) : refusal;
}

/**
 * Requires that every value of a tenant header equals the tenant of the credentials byte for byte (specification 5.5).
 * The header may be absent. Two values joined by a comma equal no tenant.
 * @param headerName lowercase
 * @throws ServiceError `tenant_mismatch`
 */
export function matchTenantHeader(caller: Caller, inbound: InboundRequest, headerName: string): void {
  if (inbound.headerValues(headerName).every((value) => value === caller.tenantId)) return;
  throw new ServiceError("tenant_mismatch", "the tenant header differs from the tenant of the credentials");
}
