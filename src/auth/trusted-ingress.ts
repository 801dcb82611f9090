/** Who the trusted ingress is: the one peer whose word about others counts. */
import { timingSafeEqual } from "node:crypto";
import { isInNetworks, isLoopbackAddress, type Network } from "../base/network.ts";
import { thumbprintOf } from "../base/thumbprint.ts";
import type { EdgeRequest } from "./edge.ts";

export interface TrustedIngress {
  /** Addresses that it connects from. Empty: nobody is trusted. */
  readonly networks: readonly Network[];
  /**
   * SHA-256 thumbprints, 32 bytes each, of the TLS client certificates of which it must show one. Empty: its address
   * is all that says who it is.
   */
  readonly certificates: readonly Uint8Array[];
}

/** Whether the call came in over a connection of the ingress: by its address and, where they are pinned, certificate. */
export function isFromIngress(edge: EdgeRequest, ingress: TrustedIngress): boolean {
  if (!isInNetworks(ingress.networks, edge.remoteAddress)) return false;
  return ingress.certificates.length === 0 || showsOneOf(ingress.certificates, edge);
}

/**
 * Whether the hop from the ingress is authenticated as well: by a pinned certificate, or because it does not leave
 * this machine. An address alone can be borrowed by whoever sits on the network between.
 */
export function isAuthenticatedIngress(edge: EdgeRequest, ingress: TrustedIngress): boolean {
  return isFromIngress(edge, ingress) && (ingress.certificates.length > 0 || isLoopbackAddress(edge.remoteAddress));
}

function showsOneOf(certificates: readonly Uint8Array[], edge: EdgeRequest): boolean {
  const der = edge.clientCertificate?.();
  if (der === undefined) return false;
  const shown = thumbprintOf(der);
  return certificates.some((pinned) => timingSafeEqual(pinned, shown));
}
