/** The peer that asks for a session, from the network alone, before a byte of the body is read. */

import type { InboundRequest } from "../base/inbound-request.ts";
import {
  type MutualTlsRule,
  type NoPossessionRule,
  type OnCertificateIgnored,
  presentedThumbprint,
  refusedPossession,
} from "./confirmation.ts";
import { callerAddress, type TrustedIngress } from "./trusted-ingress.ts";

export interface SessionPeer {
  /** From `callerAddress`. */
  readonly address: string;
  /** Base64url SHA-256 of the client certificate to bind the token to; undefined if it is not to be bound. */
  readonly certificateThumbprint: string | undefined;
}

/**
 * Reads the peer of a call. If tokens are bound to certificates, the peer must present one, as on any other call.
 * @throws ServiceError `proof_of_possession_failed`
 */
export function sessionPeer(
  inbound: InboundRequest,
  ingress: TrustedIngress,
  rule: NoPossessionRule | MutualTlsRule,
  onCertificateIgnored: OnCertificateIgnored,
): SessionPeer {
  const address = callerAddress(inbound, ingress);
  if (rule.mode === "none") return { address, certificateThumbprint: undefined };
  const thumbprint = presentedThumbprint(inbound, rule, onCertificateIgnored);
  if (thumbprint === undefined) throw refusedPossession("no client certificate of a trusted authority was presented");
  return { address, certificateThumbprint: thumbprint.toString("base64url") };
}
