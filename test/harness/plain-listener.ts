import type { Admit } from "../../src/http/admit.ts";
import { createListener, type ListenerOptions } from "../../src/http/listener.ts";

/** Admission without a queue: all starts at once. */
const admit: Admit = {
  request: (_request, _response, start) => start(),
  operatorRequest: (_request, _response, start) => start(),
  probe: (_request, _response, start) => start(),
  stream: (_stream, _headers, _rawHeaders, start) => start(),
};

/** The product's listener with one handler, and with time enough for every caller. */
export const plainListener = (handler: ListenerOptions["handler"], tls?: ListenerOptions["tls"]) =>
  createListener({
    admit,
    handler,
    ...(tls && { tls }),
    answerTimeoutMs: 30_000,
    maxConnections: 64,
    onVersion: (response) => response.destroy(),
    onDefect: (error) => {
      throw error;
    },
    headersTimeoutMs: 30_000,
    requestTimeoutMs: 30_000,
    idleTimeoutMs: 30_000,
    maxHeaderBytes: 32 * 1024,
    onClientError: (_error, socket) => void socket.destroy(),
    onTunnel: (socket) => void socket.destroy(),
  });
