/** The parts of a request that authentication reads, known before a byte of the body is. */
export interface InboundRequest {
  /**
   * Every value of the header, in order, never joined. Comes from the raw headers, because HTTP/1 parsers silently keep
   * the first of two `Authorization` headers. The name is lowercase.
   */
  headerValues(name: string): readonly string[];
  /** Address of the socket's peer, never one from a header; empty if there is none. */
  readonly remoteAddress: string;
  /** DER of the client certificate of this connection's TLS session; undefined if there is none. */
  readonly clientCertificate?: () => Uint8Array | undefined;
  /** Whether this connection is TLS. Default: false. */
  readonly encrypted?: boolean;
  readonly method: string;
  /** Path and query as they were sent. */
  readonly url: string;
}

/**
 * Visible ASCII with single spaces in between. No comma: a proxy joins two headers of one name with it (RFC 9110 §5.3),
 * and one of them may come from an attacker.
 */
const canonical = /^[\x21-\x2b\x2d-\x7e]+(?: [\x21-\x2b\x2d-\x7e]+)*$/;

/** Returns the value of an identity header if it is canonical. */
export function canonicalText(value: string): string | undefined {
  return canonical.test(value) ? value : undefined;
}
