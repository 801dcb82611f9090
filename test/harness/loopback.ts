/** Servers of tests, and free ports, on this machine alone. */
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

export interface Loopback {
  readonly port: number;
  /** Cuts every connection. Resolves once the port is free. */
  stop(): Promise<void>;
}

/**
 * Has the server listen on 127.0.0.1. Rejects if the port is taken.
 * @param port default: any free one
 */
export async function listenOnLoopback(server: Server, port = 0): Promise<Loopback> {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open) socket.destroy();
      return closed;
    },
  };
}

/** A port that was free a moment ago, for a program that cannot choose one itself. */
export async function freePort(): Promise<number> {
  const { port, stop } = await listenOnLoopback(createServer());
  await stop();
  return port;
}
