/** Stands between a client and a PostgreSQL, and cuts connections on command. */
import { connect, createServer, type Server, type Socket } from "node:net";

export interface CuttingProxy {
  readonly port: number;
  /** Connections that were cut. */
  readonly cuts: number;
  /** Cuts the next connection that sends this text, before the server gets it. */
  cutBefore(text: string): void;
  /** As `cutBefore`, when the server has begun to answer it; the answer is lost. */
  cutAfter(text: string): void;
  /** Cuts none, where none was cut yet. */
  disarm(): void;
  close(): Promise<void>;
}

/** Stands between client and server, and cuts connections on command. */
export async function cuttingProxy(port: number): Promise<CuttingProxy> {
  let armed: { readonly text: string; readonly after: boolean } | undefined;
  let cuts = 0;
  const sockets = new Set<Socket>();
  const proxy: Server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    let isDoomed = false;
    const cut = () => {
      cuts += 1;
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
    }
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => client.destroy());
    client.on("data", (data) => {
      if (armed !== undefined && data.includes(armed.text)) {
        isDoomed = armed.after;
        armed = undefined;
        if (!isDoomed) return cut();
      }
      upstream.write(data);
    });
    upstream.on("data", (data) => (isDoomed ? cut() : client.write(data)));
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const address = proxy.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    get cuts() {
      return cuts;
    },
    cutBefore: (text) => {
      armed = { text, after: false };
    },
    cutAfter: (text) => {
      armed = { text, after: true };
    },
    disarm: () => {
      armed = undefined;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}
