/** Sees by their connections whether processes run, which a reused process id cannot fake. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";

export interface Hanging {
  /** Where the processes connect to, on the loopback. */
  readonly port: number;
  /** Resolves when all are connected. */
  readonly allRunning: Promise<void>;
  /** Resolves when none is any more. */
  readonly allEnded: Promise<void>;
}

/** Waits for so many processes. */
export async function listenForHanging(count: number): Promise<Hanging> {
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
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { port, allRunning: running.promise, allEnded: ended.promise };
}
