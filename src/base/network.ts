/** Addresses and address ranges, for deciding whom to believe. */
import ipaddr from "ipaddr.js";

/** One CIDR block. IPv4-mapped IPv6 blocks are kept as the IPv4 blocks that they are. */
export interface Network {
  readonly address: ipaddr.IPv4 | ipaddr.IPv6;
  readonly prefixLength: number;
}

/**
 * Parses `10.0.0.0/8`, `2001:db8::/32`, `::ffff:10.0.0.0/104` or a bare address (a block of one). Returns undefined
 * for anything else: octal, hexadecimal or shortened IPv4 forms, zone identifiers, and blocks with host bits set,
 * because `10.1.2.3/8` says one thing and means another.
 */
export function parseNetwork(text: string): Network | undefined {
  const [addressText = "", prefixText, ...rest] = text.split("/");
  const parsed = parseAddress(addressText);
  if (parsed === undefined || rest.length > 0) return undefined;
  const bits = parsed.kind() === "ipv4" ? 32 : 128;
  if (prefixText !== undefined && !/^(0|[1-9]\d{0,2})$/.test(prefixText)) return undefined;
  const prefixLength = prefixText === undefined ? bits : Number(prefixText);
  if (prefixLength > bits || hasHostBits(parsed.toByteArray(), prefixLength)) return undefined;
  if (parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress()) {
    if (prefixLength < 96) return undefined;
    return { address: parsed.toIPv4Address(), prefixLength: prefixLength - 96 };
  }
  return { address: parsed, prefixLength };
}

/**
 * Whether the peer address, as a socket reports it, lies in one of the networks. An IPv4-mapped IPv6 address
 * (`::ffff:10.0.0.1`, what a dual-stack listener reports) counts as its IPv4 address; a zone identifier is ignored.
 * What is no address, such as the empty peer of a Unix socket, lies in none.
 */
export function isInNetworks(networks: readonly Network[], peerAddress: string): boolean {
  if (networks.length === 0 || !ipaddr.isValid(peerAddress)) return false;
  const address = ipaddr.process(peerAddress);
  return networks.some(
    (network) => network.address.kind() === address.kind() && address.match(network.address, network.prefixLength),
  );
}

/**
 * What stands for a peer address where callers are counted: an IPv4 address, or the /64 block of an IPv6 address, since
 * whoever holds one holds all of it. What is no address is the empty text.
 */
export function addressGroup(peerAddress: string): string {
  if (!ipaddr.isValid(peerAddress)) return "";
  const address = ipaddr.process(peerAddress);
  if (address instanceof ipaddr.IPv4) return address.toString();
  return `${new ipaddr.IPv6([...address.toByteArray().slice(0, 8), 0, 0, 0, 0, 0, 0, 0, 0])}/64`;
}

/**
 * The block around what `addressGroup` gives, that one party is likely to hold: /24 of IPv4, /48 of IPv6, as sites are
 * given (RFC 6177).
 */
export function neighbourhood(group: string): string {
  const [address = ""] = group.split("/");
  if (!ipaddr.isValid(address)) return "";
  const parsed = ipaddr.parse(address);
  const [kept, bits] = parsed instanceof ipaddr.IPv4 ? [3, 24] : [6, 48];
  const bytes = parsed.toByteArray().map((byte, i) => (i < kept ? byte : 0));
  return `${ipaddr.fromByteArray(bytes)}/${bits}`;
}

/** Blocks of IPv6 addresses that one party may hold: a link, a customer, a site (RFC 6177). */
const blockBits = [64, 56, 48];

/**
 * The blocks that callers are counted under, smallest first: an IPv4 address alone; the /64, /56 and /48 of an IPv6
 * address, since whoever holds one of them holds all of the smaller ones in it.
 *
 * @param group as `addressGroup` writes it
 */
export function addressBlocks(group: string): readonly [string, ...string[]] {
  if (!group.endsWith("/64")) return [group];
  const bytes = ipaddr.IPv6.parse(group.slice(0, -"/64".length)).toByteArray();
  const [, ...wider] = blockBits.map((bits) => {
    const network = bytes.map((byte, i) => (i < bits / 8 ? byte : 0));
    return `${new ipaddr.IPv6(network)}/${bits}`;
  });
  return [group, ...wider];
}

/** Whether a URL's host names this machine: `localhost`, `127.0.0.0/8`, `[::1]`. Takes `URL.hostname` as it is. */
export function isLoopbackHost(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** Whether a peer address, as a socket reports it, is one of this machine's own: `127.0.0.0/8` or `::1`. */
export function isLoopbackAddress(peerAddress: string): boolean {
  return ipaddr.isValid(peerAddress) && ipaddr.process(peerAddress).range() === "loopback";
}

/** Whether every address of the network is one of this machine's own. */
export function isLoopbackNetwork({ address, prefixLength }: Network): boolean {
  return address.range() === "loopback" && prefixLength >= (address.kind() === "ipv4" ? 8 : 128);
}

/** Parses an address in a usual form: IPv4 as four decimal numbers, IPv6 without a zone identifier. */
export function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  if (!text.includes(":") || text.includes("%") || !ipaddr.IPv6.isValid(text)) return undefined;
  return ipaddr.IPv6.parse(text);
}

function hasHostBits(bytes: readonly number[], prefixLength: number): boolean {
  return bytes.some((byte, index) => {
    const networkBits = Math.min(8, Math.max(0, prefixLength - index * 8));
    return (byte & (0xff >> networkBits)) !== 0;
  });
}
