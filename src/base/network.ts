/** Addresses and address ranges, for decisions about trust. */
import ipaddr from "ipaddr.js";

/** A CIDR block. IPv4-mapped IPv6 blocks become IPv4 blocks. */
export interface Network {
  readonly address: ipaddr.IPv4 | ipaddr.IPv6;
  readonly prefixLength: number;
}

/**
 * Parses `10.0.0.0/8`, `2001:db8::/32`, `::ffff:10.0.0.0/104` or a bare address (a block of one). Returns undefined for
 * anything else: octal, hexadecimal or shortened IPv4 forms, zone identifiers, and blocks with host bits set, because
 * `10.1.2.3/8` is ambiguous.
 */
export function parseNetwork(text: string): Network | undefined {
  const [addressText = "", prefixText, ...rest] = text.split("/");
  const parsed = parseAddress(addressText);
  if (parsed === undefined || rest.length > 0) return undefined;
  const isIPv4 = parsed instanceof ipaddr.IPv4;
  const bits = isIPv4 ? 32 : 128;
  if (prefixText !== undefined && !/^(0|[1-9]\d{0,2})$/.test(prefixText)) return undefined;
  const prefixLength = prefixText === undefined ? bits : Number(prefixText);
  if (prefixLength > bits) return undefined;
  const network = (isIPv4 ? ipaddr.IPv4 : ipaddr.IPv6).networkAddressFromCIDR(`${parsed}/${prefixLength}`);
  if (network.toString() !== parsed.toString()) return undefined;
  if (parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress()) {
    if (prefixLength < 96) return undefined;
    return { address: parsed.toIPv4Address(), prefixLength: prefixLength - 96 };
  }
  return { address: parsed, prefixLength };
}

/**
 * Whether the peer address of a socket is in one of the networks. An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`, from
 * a dual-stack listener) counts as its IPv4 address; a zone identifier is ignored. Text that is not an address, such as
 * the empty peer of a Unix socket, is in none.
 */
export function isInNetworks(networks: readonly Network[], peerAddress: string): boolean {
  if (networks.length === 0 || !ipaddr.isValid(peerAddress)) return false;
  const address = ipaddr.process(peerAddress);
  return networks.some(
    (network) => network.address.kind() === address.kind() && address.match(network.address, network.prefixLength),
  );
}

/**
 * Returns the unit by which callers are counted: an IPv4 address, or the /64 of an IPv6 address, because its holder has
 * all of it. Empty if it is not an address.
 */
export function addressGroup(peerAddress: string): string {
  if (!ipaddr.isValid(peerAddress)) return "";
  const address = ipaddr.process(peerAddress);
  if (address instanceof ipaddr.IPv4) return address.toString();
  return blockOf(address, 64);
}

/** The block of so many bits, whole bytes, that the address is in. */
function blockOf(address: ipaddr.IPv4 | ipaddr.IPv6, bits: number): string {
  const network = address.toByteArray().map((byte, i) => (i < bits / 8 ? byte : 0));
  return `${ipaddr.fromByteArray(network)}/${bits}`;
}

/** The block around a result of `addressGroup` that one party probably holds: IPv4 /24, IPv6 /48 (RFC 6177). */
export function neighbourhood(group: string): string {
  const [address = ""] = group.split("/");
  if (!ipaddr.isValid(address)) return "";
  const parsed = ipaddr.parse(address);
  return blockOf(parsed, parsed instanceof ipaddr.IPv4 ? 24 : 48);
}

/**
 * Returns the blocks under which callers are counted, smallest first: an IPv4 address alone; the /64, /56 and /48 of an
 * IPv6 address (a link, a customer, a site: RFC 6177), because the holder of a block has all smaller ones in it.
 *
 * @param group from `addressGroup`
 */
export function addressBlocks(group: string): readonly [string, ...string[]] {
  if (!group.endsWith("/64")) return [group];
  const address = ipaddr.IPv6.parse(group.slice(0, -"/64".length));
  return [group, blockOf(address, 56), blockOf(address, 48)];
}

/** Whether a URL's host is this machine: `localhost`, `127.0.0.0/8`, `[::1]`. Takes `URL.hostname`. */
export function isLoopbackHost(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** Whether the peer address of a socket is on loopback: `127.0.0.0/8` or `::1`. */
export function isLoopbackAddress(peerAddress: string): boolean {
  return ipaddr.isValid(peerAddress) && ipaddr.process(peerAddress).range() === "loopback";
}

export function isLoopbackNetwork({ address, prefixLength }: Network): boolean {
  return address.range() === "loopback" && prefixLength >= (address.kind() === "ipv4" ? 8 : 128);
}

/** Parses an address in its usual form: IPv4 as four decimal numbers, IPv6 without a zone identifier. */
export function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  if (!text.includes(":") || text.includes("%") || !ipaddr.IPv6.isValid(text)) return undefined;
  return ipaddr.IPv6.parse(text);
}
