/** The address that a call comes from, for counting. */
import { addressGroup, isInNetworks } from "../base/network.ts";
import type { EdgeRequest } from "./edge.ts";
import { isFromIngress, type TrustedIngress } from "./trusted-ingress.ts";

/** Longest list that is looked at, in entries: proxies on the way. */
const maximumEntries = 16;

/**
 * Returns the caller's address as `addressGroup` writes it: the socket's peer, or, where that is the ingress, the last
 * address in `X-Forwarded-For` that is not a trusted proxy's. What stands before it is the caller's own word. Where
 * the ingress names nobody it is the ingress itself.
 */
export function callerAddress(edge: EdgeRequest, ingress: TrustedIngress): string {
  if (!isFromIngress(edge, ingress)) return addressGroup(edge.remoteAddress);
  const entries = edge.headerValues("x-forwarded-for").flatMap((value) => value.split(","));
  for (const entry of entries.slice(-maximumEntries).reverse()) {
    const address = entry.trim();
    if (!isInNetworks(ingress.networks, address)) return addressGroup(address);
  }
  return addressGroup(edge.remoteAddress);
}
