import { matchTenantHeader } from "../../auth/tenant-header.ts";
import type { GateLink } from "./gate.ts";

/** Second link: a forwarded tenant header must equal the tenant of the credentials (specification 5.5). */
export function matchTenant(headerName: string): GateLink {
  return ({ call, edge }) => {
    if (call.caller !== undefined) matchTenantHeader(call.caller, edge, headerName);
  };
}
