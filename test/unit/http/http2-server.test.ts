/** Node's HTTP/2 server as the listener sets it up. If a test here fails, the process of the tests may end with it. */
import type { Http2ServerRequest, ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import net from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { collectGarbage } from "../../harness/collect-garbage.ts";
import { h2Field, h2Frame, h2Preface, h2RequestHeaders } from "../../harness/h2-frames.ts";
import { plainListener } from "../../harness/plain-listener.ts";

/** More than the buffers of a connection hold, in bytes. */
const unreadAnswer = Buffer.alloc(4 * 1024 * 1024);
/** Options of waiting, in milliseconds. */
const soon = { interval: 1, timeout: 10_000 };
/** Connections at once: their answers must not exceed what the listener keeps for an address, or it cuts them. */
const connections = 3;

const endHeaders = 0x4;
const endStream = 0x1;
const largestWindow = Buffer.from([0x7f, 0, 0, 0]);
const request = Buffer.concat([
  h2Preface,
  h2Frame(4, 0, 0, Buffer.concat([Buffer.from([0, 4]), largestWindow])),
  h2Frame(8, 0, 0, largestWindow),
  h2Frame(1, endHeaders, 1, h2RequestHeaders("/")),
]);
const trailers = (flags: number) => h2Frame(1, flags, 1, h2Field("x-trailer", "a".repeat(64)));
const reset = h2Frame(3, 0, 1, Buffer.from([0, 0, 0, 8]));
const ping = h2Frame(6, 0, 0, Buffer.alloc(8));

test.each<[string, Buffer, (stream: ServerHttp2Stream) => void]>([
  ["resets the connection amid its trailers", trailers(endStream), () => {}],
  ["sends another frame amid its trailers", Buffer.concat([trailers(endStream), ping]), () => {}],
  ["resets the stream after trailers that do not end it", Buffer.concat([trailers(endHeaders), reset]), () => {}],
  ["is cut off amid its trailers", trailers(endStream), (stream) => stream.destroy()],
])("a caller that reads no answer and %s does not end the process", async (_name, end, cut) => {
  const streams: ServerHttp2Stream[] = [];
  const all: WeakRef<ServerHttp2Session>[] = [];
  const listener = plainListener((request, response) => {
    streams.push((request as unknown as Http2ServerRequest).stream);
    response.end(unreadAnswer);
  });
  const { port } = await listener.listen("127.0.0.1", 0);
  const round = async () => {
    const sockets = Array.from({ length: connections }, () => net.connect(port, "127.0.0.1").pause());
    for (const socket of sockets) socket.write(request);
    await vi.waitFor(() => expect(streams).toHaveLength(sockets.length), soon);
    const sessions = streams.map(({ session }) => session as ServerHttp2Session);
    all.push(...sessions.map((session) => new WeakRef(session)));
    const closed = sessions.map((session) => new Promise<void>((resolve) => session.once("close", resolve)));
    for (const socket of sockets) socket.write(end);
    const hasRead = (session: ServerHttp2Session) =>
      session.destroyed || session.socket.bytesRead === request.length + end.length;
    await vi.waitFor(() => expect(sessions.every(hasRead)).toBe(true), soon);
    streams.splice(0).forEach(cut);
    for (const socket of sockets) socket.resetAndDestroy();
    await Promise.all(closed);
  };
  for (let rounds = 0; rounds < 10; rounds++) {
    await round();
    for (let i = 0; i < 3; i++) {
      await turn();
      collectGarbage();
    }
  }
  expect(await listener.close(10_000)).toBe(true);
  await vi.waitFor(() => {
    collectGarbage();
    expect(all.filter((session) => session.deref() !== undefined).length).toBeLessThan(connections);
  }, soon);
});

test("a caller that ends its side amid an answer and its trailers, and resets, does not end the process", async () => {
  const streams: ServerHttp2Stream[] = [];
  const listener = plainListener((request, response) => {
    streams.push((request as unknown as Http2ServerRequest).stream);
    response.end(unreadAnswer);
  });
  const { port } = await listener.listen("127.0.0.1", 0);
  const socket = net.connect(port, "127.0.0.1").pause();
  socket.write(request);
  await vi.waitFor(() => expect(streams).toHaveLength(1), soon);
  const session = streams.pop()?.session as ServerHttp2Session;
  const collected = new Promise<void>((resolve) => {
    session.once("close", () => {
      // Timers of the next turn run before Node frees the stream.
      setTimeout(() => resolve(collectGarbage()), 1);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    });
  });
  socket.end(Buffer.concat([trailers(endStream), ping]));
  await vi.waitFor(() => expect(session.socket.readableEnded).toBe(true), soon);
  socket.resetAndDestroy();
  await collected;
  expect(await listener.close(10_000)).toBe(true);
});
