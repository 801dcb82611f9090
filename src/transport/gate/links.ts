/** The links of the gate, in the order of the chain. */
import { requireScopes as assertScopes, matchTenantHeader } from "../../auth/authenticator.ts";
import { presentedScheme, refusedToken } from "../../auth/challenge.ts";
import type { SessionPeer } from "../../auth/confirmation.ts";
import type { Caller } from "../../base/caller.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { traced } from "../../base/trace.ts";
import type { GateLink } from "../calls/gate.ts";

/** Verifies credentials. Rejects with a `ServiceError` if they are not accepted. */
export interface CredentialVerifier {
  authenticate(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /** Verifies credentials of an open stream again, without proofs that can be used only once. */
  authenticateStill(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
}

/** First link: authenticates the caller and sets `call.caller`, on which later links rely. */
export function authenticate(verifier: CredentialVerifier): GateLink {
  return async ({ call, inbound, signal }) => {
    call.caller = await traced(call.span, "authenticate", () => verifier.authenticate(inbound, signal));
    call.span?.authenticated();
  };
}

/** First link for an open stream: checks that the credentials are still good and name the same caller. */
export function authenticateStill(verifier: CredentialVerifier): GateLink {
  return async ({ call, inbound, signal }) => {
    const { caller: before } = call;
    const caller = await verifier.authenticateStill(inbound, signal);
    if (before?.tenantId !== caller.tenantId || before.principalId !== caller.principalId)
      throw refusedToken("invalid_token", "the credentials name another caller by now");
    call.caller = caller;
  };
}

/** Second link: a forwarded tenant header must equal the tenant of the credentials (specification 5.5). */
export function matchTenant(headerName: string): GateLink {
  return ({ call, inbound }) => {
    if (call.caller !== undefined) matchTenantHeader(call.caller, inbound, headerName);
  };
}

/** Third link: the scopes of the route, default ones included (specification 5.7). */
export function requireScopes(requiredScopes: (rpc: string) => readonly string[]): GateLink {
  return ({ call, inbound, rpc }) => {
    if (call.caller !== undefined) assertScopes(call.caller, requiredScopes(rpc), presentedScheme(inbound));
  };
}

/** Notes the peer that asks for a session. Refuses as `sessionPeer` does. */
export function noteSessionPeer(peerOf: (inbound: InboundRequest) => SessionPeer): GateLink {
  return ({ call, inbound }) => {
    call.sessionPeer = peerOf(inbound);
  };
}
