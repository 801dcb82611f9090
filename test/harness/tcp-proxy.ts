/** Stands between clients and a server of loopback: cuts, delays or holds back what passes, or leads elsewhere. */
import { connect, createServer, type Socket } from "node:net";
import { listenOnLoopback } from "./loopback.ts";

export interface TcpProxy {
  /** On loopback; stays the same. */
  readonly port: number;
  /** Connections that were cut because of a text. */
  readonly cuts: number;
  /** How much later the client gets what the server answers, in milliseconds; 0 at first. */
  delayMs: number;
  /** Cuts the next connection that sends this text, before the server gets it. */
  cutBefore(text: string): void;
  /** As `cutBefore`, when the server has begun to answer it; the answer is lost. */
  cutAfter(text: string): void;
  /** Cuts none, if none was cut yet. */
  disarm(): void;
  /**
   * From now on a connection on which the client sends one of these texts hangs: it stays open, and nothing is handed on
   * in either direction. Without texts every connection does, also those that are new.
   */
  hang(...texts: readonly string[]): void;
  /** Nothing hangs any more: what was held back is handed on. */
  letGo(): void;
  /** Cuts every connection, and leads new ones to this port of loopback; to no server if it is undefined. */
  moveTo(port: number | undefined): void;
  stop(): Promise<void>;
}

interface Pair {
  readonly client: Socket;
  readonly upstream: Socket;
  readonly held: Buffer[];
  hangs: boolean;
  /** Whether it is cut when the server answers. */
  isDoomed: boolean;
}

/** Opens a proxy that leads to a port of loopback. */
export async function startTcpProxy(port: number): Promise<TcpProxy> {
  const pairs = new Set<Pair>();
  let target: number | undefined = port;
  let cuts = 0;
  let armed: { readonly text: string; readonly isAfter: boolean } | undefined;
  /** Undefined if nothing hangs; empty if everything does. */
  let hangingTexts: readonly string[] | undefined;
  const hangs = (data: Buffer) =>
    hangingTexts !== undefined && (hangingTexts.length === 0 || hangingTexts.some((text) => data.includes(text)));
  const hang = (pair: Pair) => {
    pair.hangs = true;
    pair.upstream.pause();
  };
  const end = ({ client, upstream }: Pair) => {
    client.destroy();
    upstream.destroy();
  };
  const cut = (pair: Pair) => {
    cuts += 1;
    end(pair);
  };
  const server = createServer((client) => {
    client.on("error", () => {});
    if (target === undefined) {
      client.destroy();
      return;
    }
    const upstream = connect(target, "127.0.0.1").on("error", () => {});
    const pair: Pair = { client, upstream, held: [], hangs: false, isDoomed: false };
    pairs.add(pair);
    client.on("close", () => {
      pairs.delete(pair);
      upstream.destroy();
    });
    upstream.on("close", () => client.destroy());
    client.on("data", (data: Buffer) => {
      if (armed !== undefined && data.includes(armed.text)) {
        pair.isDoomed = armed.isAfter;
        armed = undefined;
        if (!pair.isDoomed) return cut(pair);
      }
      if (hangs(data)) hang(pair);
      if (pair.hangs) pair.held.push(data);
      else upstream.write(data);
    });
    upstream.on("data", (data: Buffer) => {
      if (pair.isDoomed) cut(pair);
      else if (self.delayMs === 0) client.write(data);
      else setTimeout(() => client.write(data), self.delayMs);
    });
  });
  const { port: own, stop } = await listenOnLoopback(server);
  const self: TcpProxy = {
    port: own,
    delayMs: 0,
    get cuts() {
      return cuts;
    },
    cutBefore: (text) => {
      armed = { text, isAfter: false };
    },
    cutAfter: (text) => {
      armed = { text, isAfter: true };
    },
    disarm: () => {
      armed = undefined;
    },
    hang: (...texts) => {
      hangingTexts = texts;
      if (texts.length === 0) for (const pair of pairs) hang(pair);
    },
    letGo: () => {
      hangingTexts = undefined;
      for (const pair of pairs) {
        pair.hangs = false;
        for (const data of pair.held.splice(0)) pair.upstream.write(data);
        pair.upstream.resume();
      }
    },
    moveTo: (next) => {
      target = next;
      for (const pair of pairs) end(pair);
    },
    stop,
  };
  return self;
}
