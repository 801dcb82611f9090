import { presentedScheme } from "../../auth/authorization-header.ts";
import { requireScopes as assertScopes } from "../../auth/scopes.ts";
import type { GateLink } from "./gate.ts";

/** Third link: the scopes of the route, default ones included (specification 5.7). */
export function requireScopes(requiredScopes: (rpc: string) => readonly string[]): GateLink {
  return ({ call, edge, rpc }) => {
    if (call.caller !== undefined) assertScopes(call.caller, requiredScopes(rpc), presentedScheme(edge));
  };
}
