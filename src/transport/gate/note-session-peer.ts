import type { EdgeRequest } from "../../auth/edge.ts";
import type { SessionPeer } from "../../auth/session-peer.ts";
import type { GateLink } from "./gate.ts";

/** Notes who asks for a session, for the handler. Refuses as `sessionPeer` does. */
export function noteSessionPeer(peerOf: (edge: EdgeRequest) => SessionPeer): GateLink {
  return ({ call, edge }) => {
    call.sessionPeer = peerOf(edge);
  };
}
