import { AsyncResource } from "node:async_hooks";
import { once } from "node:events";
import net from "node:net";
import { queryObjects } from "node:v8";
import { expect, test } from "vitest";
import { confineConnections } from "../../../src/http/connection.ts";
import { forTest } from "../../harness/lifetimes.ts";
import { listenOnLoopback } from "../../harness/loopback.ts";

async function start(isShared: boolean) {
  const refused: string[] = [];
  const sockets: net.Socket[] = [];
  const server = net.createServer((socket) => socket.write("welcome"));
  confineConnections(server, {
    maxConnections: 8,
    isShared: () => isShared,
    onRefused: (address) => refused.push(address),
    onDefect: (error) => {
      throw error;
    },
  });
  const { port } = await forTest(listenOnLoopback(server));
  /** Whether the connection is taken. */
  const isTaken = async (localAddress: string) => {
    const socket = net.connect({ port, host: "127.0.0.1", localAddress }).on("error", () => {});
    sockets.push(socket);
    return Promise.race([
      new Promise<boolean>((resolve) => socket.once("data", () => resolve(true))),
      new Promise<boolean>((resolve) => socket.once("close", () => resolve(false))),
    ]);
  };
  return { isTaken, refused, sockets };
}

test("an address has at most half of the connections, and gets back those that it ends", async () => {
  const { isTaken, refused, sockets } = await start(false);
  for (let i = 0; i < 4; i++) expect(await isTaken("127.0.0.2")).toBe(true);
  expect(await isTaken("127.0.0.2")).toBe(false);
  expect(await isTaken("127.0.0.3")).toBe(true);
  expect(refused).toEqual(["127.0.0.2"]);
  const [first] = sockets;
  first?.destroy();
  await expect.poll(() => isTaken("127.0.0.2")).toBe(true);
});

test("a shared address may have all connections, and the longest idle one makes room", async () => {
  const { isTaken, refused, sockets } = await start(true);
  for (let i = 0; i < 12; i++) expect(await isTaken("127.0.0.2")).toBe(true);
  await expect.poll(() => sockets.filter(({ destroyed }) => destroyed).length).toBe(4);
  expect(sockets.slice(0, 4).every(({ destroyed }) => destroyed)).toBe(true);
  expect(refused).toEqual([]);
});

test("an object that outlives a connection does not keep its socket", async () => {
  class HeldSocket extends net.Socket {}
  // As Node keeps SETTINGS that a peer has not acknowledged.
  const kept: AsyncResource[] = [];
  const server = net.createServer(() => kept.push(new AsyncResource("KEPT")));
  confineConnections(server, { maxConnections: 8, onDefect: () => {} });
  for (let i = 0; i < 3; i++) {
    const socket = new HeldSocket();
    server.emit("connection", socket);
    await once(socket.destroy(), "close");
  }
  expect(kept).toHaveLength(3);
  // The newest may still be in a register or on the stack.
  expect(queryObjects(HeldSocket)).toBeLessThan(3);
});
