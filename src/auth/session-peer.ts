/** Who asks for a session, as far as the network tells, before a byte of the body is read. */

import type { InboundRequest } from "./inbound-request.ts";
import {
  type MutualTlsRule,
  type NoPossessionRule,
  type OnCertificateIgnored,
  presentedThumbprint,
  refusedPossession,
} from "./proof/confirmation.ts";
import { callerAddress, type TrustedIngress } from "./trusted-ingress.ts";

export interface SessionPeer {
  /** As `callerAddress` returns it. */
  readonly address: string;
  /** Base64url SHA-256 of the client certificate that the token is to be bound to; undefined where none is asked for. */
  readonly certificateThumbprint: string | undefined;
}

/**
 * Reads the peer of a call. Where tokens are bound to certificates, one must be presented as on any other call.
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
