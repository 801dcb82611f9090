/** Identifies the trusted ingress, the only peer whose identity headers count. */
import { timingSafeEqual } from "node:crypto";
import type { InboundRequest } from "../base/inbound-request.ts";
import { addressGroup, isInNetworks, isLoopbackAddress, type Network, parseAddress } from "../base/network.ts";
import { thumbprintOf } from "../base/text-forms.ts";

export interface TrustedIngress {
  /** Addresses that it connects from. Empty: no peer is trusted. */
  readonly networks: readonly Network[];
  /** SHA-256 thumbprints, 32 bytes each, of acceptable client certificates. Empty: only its address is checked. */
  readonly certificates: readonly Uint8Array[];
}

/** Whether the call came over a connection of the ingress: by its address and, if certificates are pinned, by those. */
export function isFromIngress(inbound: InboundRequest, ingress: TrustedIngress): boolean {
  if (!isInNetworks(ingress.networks, inbound.remoteAddress)) return false;
  return ingress.certificates.length === 0 || showsOneOf(ingress.certificates, inbound);
}

/**
 * Whether the hop from the ingress is authenticated as well: by a pinned certificate, or because it is on loopback. An
 * attacker on the network between could use an address alone.
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

/** Longest list, in entries. */
const maximumEntries = 16;

/**
 * Returns the caller's address in the form of `addressGroup`: the socket's peer, or, if that is the ingress, the last
 * address in `X-Forwarded-For` that is not a trusted proxy's. Earlier entries are the caller's own claim. If there is
 * no valid address, returns the ingress's.
 * @param onMalformed called with an entry that is not an address
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

/** Parses an entry, which may have a port: `192.0.2.1:5`, `[2001:db8::1]:5`. Undefined if it is not an address. */
function forwardedAddress(entry: string): string | undefined {
  const [, bracketed, plain] = /^(?:\[([^\]]*:[^\]]*)\]|([\d.]+))(?::\d{1,5})?$/.exec(entry) ?? [];
  return parseAddress(bracketed ?? plain ?? entry)?.toString();
}
