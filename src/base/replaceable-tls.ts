/** TLS of a server whose certificate, key and client authorities can be replaced while it serves. */
import { X509Certificate } from "node:crypto";
import type { DetailedPeerCertificate, SecureContextOptions, Server, TLSSocket, TlsOptions } from "node:tls";
import { Connection } from "./connection.ts";

/** In PEM: certificate chain, its key, and the authorities of client certificates; none is asked for without these. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
}

/** Options of a context, with which every connection begins that comes from now on. */
export function contextOptions({ cert, key, clientCa }: TlsFiles): SecureContextOptions {
  return { cert, key, minVersion: "TLSv1.2", ...(clientCa !== undefined && { ca: clientCa }) };
}

/**
 * Options of the server. A client without a certificate, or with one of another authority, still gets an answer over
 * HTTP: what its token is worth is decided there.
 */
export function serverTlsOptions(files: TlsFiles): TlsOptions {
  const client = files.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: false };
  return { ...contextOptions(files), ...client };
}

/** A connection whose caller is no longer known by its certificate. */
export interface DisownedConnection {
  readonly socket: TLSSocket;
  readonly connection: Connection | undefined;
}

export interface ReplaceableTlsOptions {
  readonly files: TlsFiles;
  /** Longest time of a handshake, in milliseconds: one that began before a replacement may end after it. */
  readonly handshakeTimeoutMs: number;
  /** Has each of them end when its exchanges have. */
  readonly leave: (disowned: readonly DisownedConnection[]) => void;
}

/** How long exchanges may go on: longer than a call may take, and its answer until it is taken, in milliseconds. */
const leaveGraceMs = 60_000;
/** How often it is looked whether a connection that is to end has nothing under way, in milliseconds. */
const leavePollMs = 250;

export class ReplaceableTls {
  readonly #server: Server;
  readonly #options: ReplaceableTlsOptions;
  /** Open connections whose client showed a certificate of an authority. */
  readonly #known = new Map<TLSSocket, Connection | undefined>();
  #authorities: ReadonlySet<string>;
  /** What was removed in the time of one handshake, and until when that is looked for. */
  #removed: ReadonlySet<string> = new Set();
  #removedUntilMs = 0;

  /** @param server made with `serverTlsOptions` of the files */
  constructor(server: Server, options: ReplaceableTlsOptions) {
    this.#server = server;
    this.#options = options;
    this.#authorities = fingerprintsOf(options.files.clientCa);
    server.prependListener("secureConnection", (socket) => this.#begin(socket));
  }

  /**
   * New connections begin with these; those that are open go on with what they began with. Sessions of before are not
   * resumed (RFC 8446 §4.6.1, RFC 5077): a new context has ticket keys of its own. A client whose chain of certificates
   * has an authority that is no longer there has shown none from now on: what is under way may finish, and then its
   * connection ends. Throws, with all as it was, where the files are not good.
   */
  replace(files: TlsFiles): void {
    this.#server.setSecureContext(contextOptions(files));
    const authorities = fingerprintsOf(files.clientCa);
    const gone = this.#authorities.difference(authorities);
    this.#authorities = authorities;
    // What is back is not gone.
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

  /** A resumed session has no chain but the client's own certificate: nobody knows what vouched for it. */
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

const pemCertificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** SHA-256 fingerprints of certificates in PEM. */
function fingerprintsOf(pem = ""): ReadonlySet<string> {
  return new Set((pem.match(pemCertificate) ?? []).map((each) => new X509Certificate(each).fingerprint256));
}

/** Fingerprints of the certificates that lead from the client's own to an authority, both included. */
function chainOf(socket: TLSSocket): readonly string[] {
  const chain: string[] = [];
  let certificate: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
  while (certificate?.fingerprint256 !== undefined && !chain.includes(certificate.fingerprint256)) {
    chain.push(certificate.fingerprint256);
    certificate = certificate.issuerCertificate;
  }
  return chain;
}
