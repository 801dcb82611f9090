/** HTTP servers of tests, and free ports, on this machine alone. */
import type { Server } from "node:http";
import type { Server as TlsServer } from "node:https";
import { type AddressInfo, createServer } from "node:net";

export interface Loopback {
  readonly port: number;
  /** Cuts every connection. Resolves once the port is free. */
  stop(): Promise<void>;
}

/**
 * Has the server listen on 127.0.0.1. Rejects if the port is taken.
 * @param port default: any free one
 */
export async function listenOnLoopback(server: Server | TlsServer, port = 0): Promise<Loopback> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      return closed;
    },
  };
}

/** A port that was free a moment ago, for a program that cannot choose one itself. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
