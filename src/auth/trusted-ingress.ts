/** Identifies the trusted ingress, the only peer whose identity headers count. */
import { timingSafeEqual } from "node:crypto";
import type { InboundRequest } from "../base/inbound-request.ts";
import { orUndefined } from "../base/json.ts";
import { addressGroup, isInNetworks, isLoopbackAddress, type Network, parseAddress } from "../base/network.ts";
import { parseThumbprint, thumbprintOf } from "../base/text-forms.ts";
import type { ForwardedCertificateFormat } from "../base/vocabulary.ts";

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

// Parses the client certificate that a trusted ingress forwards, in the configured format.

/** Longest header value; a certificate with a 4096-bit key has about 3 KiB when encoded. */
const maximumLength = 16 * 1024;

const pemCertificate =
  /^-----BEGIN CERTIFICATE-----\r?\n((?:[A-Za-z0-9+/=]{1,76}\r?\n)+)-----END CERTIFICATE-----(?:\r?\n)?$/;
const byteSequence = /^:([A-Za-z0-9+/]+={0,2}):$/;

const parsers: Readonly<Record<ForwardedCertificateFormat, (value: string) => Buffer | undefined>> = {
  thumbprint: parseThumbprint,
  pem(value) {
    const body = pemCertificate.exec(orUndefined(() => decodeURIComponent(value)) ?? "")?.[1];
    return body === undefined ? undefined : thumbprintOfBase64(body.replace(/\r?\n/g, ""));
  },
  der(value) {
    const body = byteSequence.exec(value)?.[1];
    return body === undefined ? undefined : thumbprintOfBase64(body);
  },
};

/**
 * Returns the SHA-256 thumbprint, 32 bytes, of a forwarded certificate; undefined if the value is not canonical in the
 * format. Does NOT check that the bytes are a certificate: a binding is to the hash of exactly these bytes.
 */
export function parseForwardedCertificate(value: string, format: ForwardedCertificateFormat): Buffer | undefined {
  return value.length > maximumLength ? undefined : parsers[format](value);
}

function thumbprintOfBase64(text: string): Buffer | undefined {
  const der = Buffer.from(text, "base64");
  return der.length > 0 && der.toString("base64") === text ? thumbprintOf(der) : undefined;
}
