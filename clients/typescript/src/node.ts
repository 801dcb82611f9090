/** What the client does on Node alone: gRPC over HTTP/2, and client certificates. */
import type { Interceptor, Transport } from "@connectrpc/connect";
import {
  createNodeHttpClient,
  createGrpcTransport as createTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import type { HttpClient } from "./http.ts";

/** What proves who is who, as PEM. */
export interface TlsOptions {
  /** Authorities that the server's certificate may come from. Default: those of the system. */
  readonly ca?: string | readonly string[];
  /** Certificate chain and key of this workload. */
  readonly cert?: string;
  readonly key?: string;
}

export interface GrpcTransportOptions {
  /** Base URL of the service, such as `https://platform.example.com`. `http` speaks HTTP/2 without TLS. */
  readonly baseUrl: string;
  readonly tls?: TlsOptions;
  /** First is outermost. */
  readonly interceptors?: readonly Interceptor[];
  /** Time for a call that sets none itself, in milliseconds. Default 30,000. */
  readonly defaultTimeoutMs?: number;
}

/** A transport that holds a connection. */
export interface GrpcTransport extends Transport {
  /** Closes the connection; calls in flight fail. */
  close(): void;
}

/** gRPC over one connection, which is opened by the first call and again by the first after it broke. */
export function createGrpcTransport(options: GrpcTransportOptions): GrpcTransport {
  const { baseUrl, tls = {}, interceptors = [], defaultTimeoutMs = 30_000 } = options;
  const sessions = new Http2SessionManager(baseUrl, { pingIntervalMs: 20_000 }, nodeTls(tls));
  const transport = createTransport({
    baseUrl,
    sessionManager: sessions,
    interceptors: [...interceptors],
    defaultTimeoutMs,
  });
  return Object.assign(transport, { close: () => sessions.abort() });
}

/** An HTTP/1.1 client that presents the workload's certificate, for the JSON routes and for the issuer. */
export function createHttpClient({ tls = {} }: { readonly tls?: TlsOptions } = {}): HttpClient {
  return createNodeHttpClient({ httpVersion: "1.1", nodeOptions: nodeTls(tls) });
}

function nodeTls({ ca, cert, key }: TlsOptions) {
  return {
    ...(ca !== undefined && { ca: typeof ca === "string" ? ca : [...ca] }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
  };
}
