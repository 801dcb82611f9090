/** An address that moves from one server to another, as an operator's virtual address does. */
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface MovingAddress {
  /** On loopback; stays the same. */
  readonly port: number;
  /** Cuts every connection, and leads new ones to this port of loopback; to no server if it is undefined. */
  moveTo(port: number | undefined): void;
  /** Passes nothing on any more over the connections that are open; what was held is lost when they are cut. */
  hold(): void;
  close(): Promise<void>;
}

/** Opens an address that leads to a port of loopback. */
export async function movingAddress(port: number): Promise<MovingAddress> {
  let target: number | undefined = port;
  const open = new Set<Socket>();
  const cutAll = () => {
    for (const socket of open) socket.destroy();
  };
  const server = createServer((client) => {
    client.on("error", () => {});
    if (target === undefined) {
      client.destroy();
      return;
    }
    const upstream = connect(target, "127.0.0.1");
    upstream.on("error", () => {});
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(socket);
      socket.on("close", () => {
        open.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    moveTo(next) {
      target = next;
      cutAll();
    },
    hold() {
      for (const socket of open) socket.unpipe().pause();
    },
    async close() {
      cutAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
