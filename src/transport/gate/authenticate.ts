import type { EdgeRequest } from "../../auth/edge.ts";
import type { Caller } from "../../base/caller.ts";
import type { GateLink } from "./gate.ts";

/** Verifies credentials; rejects with a `ServiceError` where it cannot. */
export interface CredentialVerifier {
  authenticate(edge: EdgeRequest, signal: AbortSignal): Promise<Caller>;
}

/** First link: who is calling? Everything after it may rely on `call.caller`. */
export function authenticate(verifier: CredentialVerifier): GateLink {
  return async ({ call, edge, signal }) => {
    call.caller = await verifier.authenticate(edge, signal);
  };
}
