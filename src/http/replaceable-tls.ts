/** TLS for a server whose certificate, key and client authorities can be replaced while it serves. */
import { constants, X509Certificate } from "node:crypto";
import type { DetailedPeerCertificate, SecureContextOptions, Server, TLSSocket, TlsOptions } from "node:tls";
import { certificatesIn } from "../base/text-forms.ts";
import { Connection } from "./connection.ts";

/** PEM: certificate chain, its key, and the authorities of client certificates, if those are requested. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
}

/**
 * Options of the context for new connections. No renegotiation (RFC 9113 §9.2.1): it would change the client's
 * certificate, which only the first handshake is judged by.
 */
export function contextOptions({ cert, key, clientCa }: TlsFiles): SecureContextOptions {
  const options = { minVersion: "TLSv1.2", secureOptions: constants.SSL_OP_NO_RENEGOTIATION } as const;
  return { cert, key, ...options, ...(clientCa !== undefined && { ca: clientCa }) };
}

/** Options of the server. Clients without a trusted certificate still get an HTTP answer. */
export function serverTlsOptions(files: TlsFiles): TlsOptions {
  const client = files.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: false };
  return { ...contextOptions(files), ...client };
}

/** A connection whose client certificate is no longer trusted. */
interface DisownedConnection {
  readonly socket: TLSSocket;
  readonly connection: Connection | undefined;
}

interface ReplaceableTlsOptions {
  readonly files: TlsFiles;
  /** Longest handshake, in milliseconds: one that began before a replacement may end after it. */
  readonly handshakeTimeoutMs: number;
  /** Ends each connection after its exchanges. */
  readonly leave: (disowned: readonly DisownedConnection[]) => void;
}

/** How long exchanges may continue: longer than any call and its answer, in milliseconds. */
const leaveGraceMs = 60_000;
/** Interval between checks for idle connections that must end, in milliseconds. */
const leavePollMs = 250;

export class ReplaceableTls {
  readonly #server: Server;
  readonly #options: ReplaceableTlsOptions;
  /** Open connections with a trusted client certificate. */
  readonly #known = new Map<TLSSocket, Connection | undefined>();
  #authorities: ReadonlySet<string>;
  /** Authorities removed within the time of one handshake, and when that time ends. */
  #removed: ReadonlySet<string> = new Set();
  #removedUntilMs = 0;

  /** @param server created with `serverTlsOptions` of the files */
  constructor(server: Server, options: ReplaceableTlsOptions) {
    this.#server = server;
    this.#options = options;
    this.#authorities = fingerprintsOf(options.files.clientCa);
    server.prependListener("secureConnection", (socket) => this.#begin(socket));
  }

  /**
   * Uses the files for new connections; open connections keep theirs. Old sessions are not resumed (RFC 8446 §4.6.1,
   * RFC 5077): a new context has new ticket keys. Connections whose client certificate came from a removed authority
   * end after their current exchanges. Throws, without any change, if the files are invalid.
   */
  replace(files: TlsFiles): void {
    this.#server.setSecureContext(contextOptions(files));
    const authorities = fingerprintsOf(files.clientCa);
    const gone = this.#authorities.difference(authorities);
    this.#authorities = authorities;
    // An authority that was added again is not removed.
    this.#removed = this.#removed.union(gone).difference(authorities);
    if (gone.size === 0) return;
    this.#removedUntilMs = performance.now() + this.#options.handshakeTimeoutMs;
    this.#disown([...this.#known.keys()].filter((socket) => this.#isGone(socket)));
  }

  #begin(socket: TLSSocket): void {
    if (!socket.authorized) return;
    this.#known.set(socket, Connection.current());
    socket.once("close", () => this.#known.delete(socket));
    if (this.#removed.size === 0) return;
    if (performance.now() >= this.#removedUntilMs) this.#removed = new Set();
    else if (this.#isGone(socket)) this.#disown([socket]);
  }

  /** A resumed session has only the client's own certificate, so its authority is unknown. */
  #isGone(socket: TLSSocket): boolean {
    const chain = chainOf(socket);
    return chain.some((each) => this.#removed.has(each)) || !chain.some((each) => this.#authorities.has(each));
  }

  #disown(sockets: readonly TLSSocket[]): void {
    if (sockets.length === 0) return;
    const disowned = sockets.map((socket) => ({ socket, connection: this.#known.get(socket) }));
    for (const { socket } of disowned) {
      this.#known.delete(socket);
      socket.authorized = false;
    }
    this.#options.leave(disowned);
    endWhenIdle(disowned);
  }
}

function endWhenIdle(disowned: readonly DisownedConnection[]): void {
  const lastMs = performance.now() + leaveGraceMs;
  let open = disowned;
  const look = setInterval(() => {
    const isLate = performance.now() >= lastMs;
    for (const { socket, connection } of open) if (isLate || connection?.isIdle !== false) socket.destroy();
    open = open.filter(({ socket }) => !socket.destroyed);
    if (open.length === 0) clearInterval(look);
  }, leavePollMs);
  look.unref();
}

function fingerprintsOf(pem = ""): ReadonlySet<string> {
  return new Set(certificatesIn(pem).map((each) => new X509Certificate(each).fingerprint256));
}

/** Fingerprints of the chain from the client's certificate to the authority, both included. */
function chainOf(socket: TLSSocket): readonly string[] {
  const chain: string[] = [];
  let certificate: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
  while (certificate?.fingerprint256 !== undefined && !chain.includes(certificate.fingerprint256)) {
    chain.push(certificate.fingerprint256);
    certificate = certificate.issuerCertificate;
  }
  return chain;
}
