/** Parts of the client for Node only: gRPC over HTTP/2, and client certificates. */
import type { ClientHttp2Stream } from "node:http2";
import type { Interceptor, Transport } from "@connectrpc/connect";
import { createGrpcTransport as createTransport, Http2SessionManager } from "@connectrpc/connect-node";
import type { HttpClient } from "./http.ts";
import { nodeHttpClient } from "./node-http.ts";
import { type TlsIdentity, type TlsOptions, tlsIdentities } from "./tls.ts";

export type { TlsOptions } from "./tls.ts";

export interface GrpcTransportOptions {
  /** Base URL of the service, such as `https://platform.example.com`. `http` means HTTP/2 without TLS. */
  readonly baseUrl: string;
  readonly tls?: TlsOptions;
  /** First is outermost. */
  readonly interceptors?: readonly Interceptor[];
  /** Default time for a call, in milliseconds. Default 30,000. */
  readonly defaultTimeoutMs?: number;
}

/** A transport with a connection. */
export interface GrpcTransport extends Transport {
  /** Closes the connection; calls in progress fail. */
  close(): void;
}

/** gRPC over one connection, opened by the first call, and again by the first call after it broke. */
export function createGrpcTransport(options: GrpcTransportOptions): GrpcTransport {
  const { baseUrl, tls, interceptors = [], defaultTimeoutMs = 30_000 } = options;
  const sessions = renewedSessions(baseUrl, tlsIdentities(tls));
  const transport = createTransport({
    baseUrl,
    sessionManager: sessions,
    interceptors: [...interceptors],
    defaultTimeoutMs,
  });
  return Object.assign(transport, { close: () => sessions.abort() });
}

/** An HTTP/1.1 client that presents the workload's certificate, for the JSON routes and for the issuer. */
export function createHttpClient({ tls }: { readonly tls?: TlsOptions } = {}): HttpClient {
  return nodeHttpClient(tlsIdentities(tls));
}

interface Session {
  readonly identity: TlsIdentity;
  readonly manager: Http2SessionManager;
  calls: number;
}

/** New calls use a connection with the current identity; a connection with an older one ends with its last call. */
function renewedSessions(baseUrl: string, identities: () => TlsIdentity) {
  const open = (identity: TlsIdentity): Session => ({
    identity,
    manager: new Http2SessionManager(baseUrl, { pingIntervalMs: 20_000 }, { ...identity }),
    calls: 0,
  });
  let latest = open(identities());
  const sessions = new Set([latest]);
  const managers = new WeakMap<ClientHttp2Stream, Http2SessionManager>();
  const endUnused = () => {
    for (const session of sessions) {
      if (session === latest || session.calls > 0) continue;
      sessions.delete(session);
      session.manager.abort();
    }
  };
  return {
    authority: latest.manager.authority,
    async request(...call: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
      const identity = identities();
      if (identity !== latest.identity) {
        latest = open(identity);
        sessions.add(latest);
        endUnused();
      }
      const session = latest;
      session.calls++;
      const end = () => {
        session.calls--;
        endUnused();
      };
      try {
        const stream = await session.manager.request(...call);
        managers.set(stream, session.manager);
        return stream.once("close", end);
      } catch (error) {
        end();
        throw error;
      }
    },
    notifyResponseByteRead(stream: ClientHttp2Stream): void {
      managers.get(stream)?.notifyResponseByteRead(stream);
    },
    abort(): void {
      for (const { manager } of sessions) manager.abort();
    },
  };
}
