/** Sees by their connections whether processes run, which a reused process id cannot fake. */
import { createServer, type Socket } from "node:net";
import { listenOnLoopback } from "./loopback.ts";

/**
 * Waits for so many processes, which connect to the port on the loopback. `allRunning` resolves when all are connected,
 * `allEnded` when none is any more.
 */
export async function listenForHanging(count: number) {
  const running = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const connected = new Set<Socket>();
  let left = 0;
  const server = createServer((socket) => {
    connected.add(socket);
    if (connected.size === count) running.resolve();
    // A process that is killed resets what it was connected to.
    socket.on("error", () => {});
    socket.resume().once("close", () => {
      left += 1;
      if (left === count) server.close(() => ended.resolve());
    });
  });
  const { port } = await listenOnLoopback(server);
  return { port, allRunning: running.promise, allEnded: ended.promise };
}
