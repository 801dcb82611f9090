import type { Caller } from "../base/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { EdgeRequest } from "./edge.ts";

/**
 * A caller need not repeat its tenant; where a tenant header is forwarded, every value of it must equal the tenant of
 * the credentials byte for byte (specification 5.5). Two values joined by a comma equal nothing.
 * @param headerName lowercase
 * @throws ServiceError `tenant_mismatch`
 */
export function matchTenantHeader(caller: Caller, edge: EdgeRequest, headerName: string): void {
  if (edge.headerValues(headerName).every((value) => value === caller.tenantId)) return;
  throw new ServiceError("tenant_mismatch", "the tenant header differs from the tenant of the credentials");
}
