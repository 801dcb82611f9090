/** The part of a request that authentication needs: known before a byte of the body is read. */
export interface InboundRequest {
  /**
   * Every value of the header as it came, in order, never joined; empty where there is none. Taken from the raw
   * headers, because HTTP/1 parsers keep the first of two `Authorization` headers in silence. The name is lowercase.
   */
  headerValues(name: string): readonly string[];
  /** Address of the socket's peer, never one that a header claims; empty where there is none. */
  readonly remoteAddress: string;
  /** DER of the client certificate of this connection's own TLS session; undefined where there is none. */
  readonly clientCertificate?: () => Uint8Array | undefined;
  /** Whether this connection itself is TLS; absent where it is not. */
  readonly encrypted?: boolean;
  readonly method: string;
  /** Path and query as they were sent. */
  readonly url: string;
}

/**
 * Visible ASCII with single spaces in between. No comma: it is how a proxy joins two headers of one name
 * (RFC 9110 §5.3), and then one of them came from somebody else.
 */
const canonical = /^[\x21-\x2b\x2d-\x7e]+(?: [\x21-\x2b\x2d-\x7e]+)*$/;

/** The value of an identity header, where it is canonical. */
export function canonicalText(value: string): string | undefined {
  return canonical.test(value) ? value : undefined;
}
