/** Node's HTTP/2 server as the listener sets it up. If a test here fails, the process of the tests may end with it. */
import type { Http2ServerRequest, ServerHttp2Session } from "node:http2";
import net from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test, vi } from "vitest";
import { h2Field, h2Frame, h2Preface, h2RequestHeaders } from "../../harness/h2-frames.ts";
import { plainListener } from "../../harness/plain-listener.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

/** More than the buffers of a connection hold, in bytes. */
const unreadAnswer = Buffer.alloc(4 * 1024 * 1024);

const endHeaders = 0x4;
const endStream = 0x1;
const largestWindow = Buffer.from([0x7f, 0, 0, 0]);
const request = Buffer.concat([
  h2Preface,
  h2Frame(4, 0, 0, Buffer.concat([Buffer.from([0, 4]), largestWindow])),
  h2Frame(8, 0, 0, largestWindow),
  h2Frame(1, endHeaders, 1, h2RequestHeaders("/")),
]);
const partOfTrailers = h2Frame(1, endStream, 1, h2Field("x-trailer", "a".repeat(64)));

test("a caller that reads no answer and resets amid its trailers does not end the process", async () => {
  const sessions: ServerHttp2Session[] = [];
  const listener = plainListener((request, response) => {
    const { session } = (request as unknown as Http2ServerRequest).stream;
    if (session !== undefined) sessions.push(session as ServerHttp2Session);
    response.end(unreadAnswer);
  });
  const { port } = await listener.listen("127.0.0.1", 0);
  for (let round = 1; round <= 4; round++) {
    const sockets = Array.from({ length: 8 }, () => net.connect(port, "127.0.0.1").pause());
    for (const socket of sockets) socket.write(request);
    await vi.waitFor(() => expect(sessions).toHaveLength(sockets.length), { interval: 1 });
    for (const socket of sockets) socket.write(partOfTrailers);
    const sent = request.length + partOfTrailers.length;
    await vi.waitFor(() => expect(sessions.every(({ socket }) => socket.bytesRead === sent)).toBe(true), {
      interval: 1,
    });
    const closed = sessions.splice(0).map((session) => new Promise<void>((resolve) => session.once("close", resolve)));
    for (const socket of sockets) socket.resetAndDestroy();
    await Promise.all(closed);
    for (let i = 0; i < 3; i++) {
      await turn();
      collectGarbage();
    }
  }
  expect(await listener.close(10_000)).toBe(true);
});
