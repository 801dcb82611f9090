/**
 * Callers who hold what they can instead of asking for much: they do not read, or vanish. Each begins again when cut off,
 * from an address that is not the quiet tenant's: those of one address wait behind each other.
 */
import http2 from "node:http2";
import net from "node:net";

const localAddress = "127.0.0.2";

/** Begins, and returns what ends it. */
export type Holder = () => () => void;

/** Keeps so many of something open: `open` is called again whenever one of them has closed. */
function keep(count: number, open: (onClosed: () => void) => { destroy(): unknown }): () => void {
  const opened = new Set<{ destroy(): unknown }>();
  let isOver = false;
  const one = () => {
    if (isOver) return;
    const closable = open(() => {
      opened.delete(closable);
      setTimeout(one, 10);
    });
    opened.add(closable);
  };
  for (let i = 0; i < count; i++) one();
  return () => {
    isOver = true;
    for (const closable of opened) closable.destroy();
  };
}

/** Streams of one HTTP/2 connection, none of whose answers may have a byte of body. */
export function unreadStreams(url: string, count: number, path: string, watches = false): Holder {
  return () =>
    keep(1, (onClosed) => {
      const session = http2.connect(url, {
        localAddress,
        settings: { initialWindowSize: 0 },
      } as http2.ClientSessionOptions);
      session.on("error", () => {}).once("close", onClosed);
      const method = watches ? "POST" : "GET";
      const headers = watches ? { "content-type": "application/grpc", te: "trailers" } : {};
      keep(count, (onStreamClosed) => {
        const stream = session.request({ ":method": method, ":path": path, ...headers }, { endStream: !watches });
        stream.on("error", () => {}).once("close", () => !session.destroyed && onStreamClosed());
        if (watches) stream.end(Buffer.alloc(5));
        return stream;
      });
      return session;
    });
}

/** Connections of HTTP/1.1 on which many requests are sent at once, and no answer is read. */
export function unreadConnections(url: string, count: number, path: string): Holder {
  const { hostname, port } = new URL(url);
  return () =>
    keep(count, (onClosed) => {
      const socket = net.connect({ host: hostname, port: Number(port), localAddress }).pause();
      socket.on("error", () => {}).once("close", onClosed);
      socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(200));
      return socket;
    });
}

/** Clients of HTTP/2 with a good token that vanish in the middle of a body, so many at a time. */
export function vanishing(url: string, count: number, path: string, token: string, body: Uint8Array): Holder {
  return () =>
    keep(count, (onClosed) => {
      const session = http2.connect(url, { localAddress } as http2.ClientSessionOptions);
      session.on("error", () => {}).once("close", onClosed);
      const headers = { ":method": "POST", ":path": path, authorization: `Bearer ${token}`, expect: "100-continue" };
      const stream = session.request({ ...headers, "content-type": "application/json" }, { endStream: false });
      stream.on("error", () => {}).once("close", () => session.destroy());
      stream.once("continue", () => stream.write(body.subarray(0, body.length / 2), () => session.destroy()));
      return session;
    });
}
