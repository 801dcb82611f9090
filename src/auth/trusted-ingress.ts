/** Identifies the trusted ingress: the one peer whose identity headers are believed. */
import { timingSafeEqual } from "node:crypto";
import { addressGroup, isInNetworks, isLoopbackAddress, type Network, parseAddress } from "../base/network.ts";
import { thumbprintOf } from "../base/text-forms.ts";
import type { InboundRequest } from "./inbound-request.ts";

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
export function isFromIngress(inbound: InboundRequest, ingress: TrustedIngress): boolean {
  if (!isInNetworks(ingress.networks, inbound.remoteAddress)) return false;
  return ingress.certificates.length === 0 || showsOneOf(ingress.certificates, inbound);
}

/**
 * Whether the hop from the ingress is authenticated as well: by a pinned certificate, or because it does not leave
 * this machine. An address alone can be borrowed by whoever sits on the network between.
 */
export function isAuthenticatedIngress(inbound: InboundRequest, ingress: TrustedIngress): boolean {
  return (
    isFromIngress(inbound, ingress) && (ingress.certificates.length > 0 || isLoopbackAddress(inbound.remoteAddress))
  );
}

function showsOneOf(certificates: readonly Uint8Array[], inbound: InboundRequest): boolean {
  const der = inbound.clientCertificate?.();
  if (der === undefined) return false;
  const shown = thumbprintOf(der);
  return certificates.some((pinned) => timingSafeEqual(pinned, shown));
}

/** Longest list that is looked at, in entries: proxies on the way. */
const maximumEntries = 16;

/**
 * Returns the caller's address as `addressGroup` writes it: the socket's peer, or, if that is the ingress, the last
 * address in `X-Forwarded-For` that is not a trusted proxy's. What stands before it is the caller's own word. If the
 * ingress names nobody, or what is no address, it is the ingress itself.
 * @param onMalformed called with an entry that is no address
 */
export function callerAddress(
  inbound: InboundRequest,
  ingress: TrustedIngress,
  onMalformed: (entry: string) => void = () => {},
): string {
  if (!isFromIngress(inbound, ingress)) return addressGroup(inbound.remoteAddress);
  const entries = inbound.headerValues("x-forwarded-for").flatMap((value) => value.split(","));
  for (const entry of entries.slice(-maximumEntries).reverse()) {
    const address = forwardedAddress(entry.trim());
    if (address === undefined) {
      onMalformed(entry.trim());
      break;
    }
    if (!isInNetworks(ingress.networks, address)) return addressGroup(address);
  }
  return addressGroup(inbound.remoteAddress);
}

/** The address of an entry, which may have a port: `192.0.2.1:5`, `[2001:db8::1]:5`. Undefined for what is no address. */
function forwardedAddress(entry: string): string | undefined {
  const [, bracketed, plain] = /^(?:\[([^\]]*:[^\]]*)\]|([\d.]+))(?::\d{1,5})?$/.exec(entry) ?? [];
  return parseAddress(bracketed ?? plain ?? entry)?.toString();
}
