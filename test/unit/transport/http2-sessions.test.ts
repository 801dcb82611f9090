/** How sessions of HTTP/2 end on which nothing happens: real sockets, and looks that pass when the test says so. */
import { once } from "node:events";
import http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { Connection, confineConnections } from "../../../src/base/connection.ts";
import { Http2Sessions, type SessionLimits } from "../../../src/transport/http/http2-server.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const lookMs = 500;
const limits: SessionLimits = { idleTimeoutMs: 4 * lookMs, answerTimeoutMs: 100 * lookMs };

async function serving() {
  const sessions = new Http2Sessions(limits);
  const open: http2.ServerHttp2Stream[] = [];
  const server = http2.createServer();
  server.on("session", (session) => sessions.add(session));
  server.on("stream", (stream: http2.ServerHttp2Stream, headers) => {
    Connection.current()?.begin(stream);
    if (headers[":path"] === "/open") open.push(stream);
    else stream.respond({ ":status": 204 }, { endStream: true });
  });
  confineConnections(server as never, { onDefect: () => {}, maxConnections: 8 });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(async () => {
    client.destroy();
    sessions.close();
    await new Promise((resolve) => server.close(resolve));
  });
  const call = async (path = "/") => {
    const stream = client.request({ ":path": path }).on("error", () => {});
    if (path === "/") await once(stream.resume(), "end");
    return stream;
  };
  /** So many looks, between which nothing is said. */
  const look = (times: number) => vi.advanceTimersByTime(times * lookMs);
  return { client, call, look, open };
}

test("one on which nothing was said for the time limit is ended in good order", async () => {
  const { client, call, look } = await serving();
  await call();
  const goodbyes: number[] = [];
  client.on("goaway", (code) => void goodbyes.push(code));
  look(5);
  await expect.poll(() => client.destroyed).toBe(true);
  expect(new Set(goodbyes)).toEqual(new Set([http2.constants.NGHTTP2_NO_ERROR]));
});

test("one that is used now and then is kept, and so is one whose peer answers meanwhile", async () => {
  const { client, call, look } = await serving();
  let isOver = false;
  client.on("goaway", () => {
    isOver = true;
  });
  for (let time = 0; time < 4; time++) {
    await call();
    look(4);
    await new Promise<void>((resolve, reject) => client.ping((error) => (error === null ? resolve() : reject(error))));
    look(4);
  }
  expect(isOver).toBe(false);
  expect(client.closed).toBe(false);
});

test("one with a stream under way is kept, however little is said on it", async () => {
  const { client, call, look, open } = await serving();
  const stream = await call("/open");
  await expect.poll(() => open.length).toBe(1);
  look(20);
  open[0]?.respond({ ":status": 204 }, { endStream: true });
  expect((await once(stream, "response"))[0]).toMatchObject({ ":status": 204 });
  expect(client.closed).toBe(false);
});
