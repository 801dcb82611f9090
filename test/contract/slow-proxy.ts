/** Stands between a client and a PostgreSQL, and hands on late, or not at all, as a network or node that hangs does. */
import { connect, createServer, type Server, type Socket } from "node:net";

export interface SlowProxy {
  readonly port: number;
  /** How much later the client gets what the server answers, in milliseconds; 0 at first. */
  delayMs: number;
  /** Connections that hang now. */
  readonly hanging: number;
  /**
   * From now on a connection on which the client sends one of these texts hangs: it stays open, and nothing is handed on
   * in either direction. Without texts every connection does, also those that are new.
   */
  hang(...texts: readonly string[]): void;
  /** Nothing hangs any more: what was held back is handed on. */
  letGo(): void;
  close(): Promise<void>;
}

interface Pair {
  readonly client: Socket;
  readonly upstream: Socket;
  readonly held: Buffer[];
  hangs: boolean;
}

export async function slowProxy(port: number): Promise<SlowProxy> {
  const pairs = new Set<Pair>();
  /** Undefined where nothing hangs; empty where everything does. */
  let hangingTexts: readonly string[] | undefined;
  const hangs = (data: Buffer) =>
    hangingTexts !== undefined && (hangingTexts.length === 0 || hangingTexts.some((text) => data.includes(text)));
  const hang = (pair: Pair) => {
    pair.hangs = true;
    pair.upstream.pause();
  };
  const letGo = (pair: Pair) => {
    pair.hangs = false;
    for (const data of pair.held.splice(0)) pair.upstream.write(data);
    pair.upstream.resume();
  };
  const proxy: Server = createServer((client) => {
    const pair: Pair = { client, upstream: connect(port, "127.0.0.1"), held: [], hangs: false };
    const { upstream } = pair;
    pairs.add(pair);
    for (const socket of [client, upstream]) socket.on("error", () => {});
    client.on("close", () => {
      pairs.delete(pair);
      upstream.destroy();
    });
    upstream.on("close", () => client.destroy());
    client.on("data", (data: Buffer) => {
      if (hangs(data)) hang(pair);
      if (pair.hangs) pair.held.push(data);
      else upstream.write(data);
    });
    upstream.on("data", (data: Buffer) => {
      if (self.delayMs === 0) client.write(data);
      else setTimeout(() => client.write(data), self.delayMs);
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const address = proxy.address();
  const self: SlowProxy = {
    port: typeof address === "object" && address !== null ? address.port : 0,
    delayMs: 0,
    get hanging() {
      return [...pairs].filter((pair) => pair.hangs).length;
    },
    hang: (...texts) => {
      hangingTexts = texts;
      if (texts.length === 0) for (const pair of pairs) hang(pair);
    },
    letGo: () => {
      hangingTexts = undefined;
      for (const pair of pairs) letGo(pair);
    },
    close: async () => {
      for (const { client, upstream } of pairs) {
        client.destroy();
        upstream.destroy();
      }
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
  return self;
}
