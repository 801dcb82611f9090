import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { EdgeRequest } from "../../auth/edge.ts";

/** The part of a request that says who sent it and what it asks. */
export interface EdgeSource extends Pick<IncomingMessage, "method" | "url"> {
  readonly rawHeaders: readonly string[];
  readonly socket: Socket | undefined;
}

/** What the network delivered, as authentication sees it. */
export function edgeOf(request: EdgeSource): EdgeRequest {
  const { rawHeaders, socket } = request;
  return {
    headerValues: (name) => headerValues(rawHeaders, name),
    remoteAddress: socket?.remoteAddress ?? "",
    clientCertificate: () => clientCertificate(socket as TLSSocket | undefined),
    encrypted: (socket as TLSSocket | undefined)?.encrypted === true,
    method: request.method ?? "",
    url: request.url ?? "",
  };
}

/** Every value of a header in order. `rawHeaders` alternates names and values; names keep the sender's case. */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const candidate = rawHeaders[i] as string;
    if (candidate.length === name.length && candidate.toLowerCase() === name) values.push(rawHeaders[i + 1] as string);
  }
  return values;
}

/**
 * The certificate of this TLS session, where its chain leads to a configured authority. The handshake proved that
 * the client holds its key.
 */
function clientCertificate(socket: TLSSocket | undefined): Uint8Array | undefined {
  if (!socket?.encrypted || !socket.authorized) return undefined;
  return socket.getPeerX509Certificate()?.raw;
}
