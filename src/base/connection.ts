/**
 * Which connection the code that runs now works for, so that a defect ends that connection and no other. The context
 * is set once for each connection; Node hands it on to parsers, streams, timers and promises by itself, and has to for
 * its own sake, so that requests cost the same.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Server, Socket } from "node:net";

/** Told of every defect: what was thrown, and the address of the peer whose connection it ends. */
export type OnDefect = (error: unknown, remoteAddress: string) => void;

const context = new AsyncLocalStorage<Connection>();

/**
 * Runs work that outlives the connection that began it, and that others share: whatever that throws belongs to nobody.
 */
export const outsideConnections = AsyncLocalStorage.snapshot();

/** An accepted connection. */
export class Connection {
  readonly #socket: Socket;
  readonly #remoteAddress: string;
  readonly #onDefect: OnDefect;

  constructor(socket: Socket, onDefect: OnDefect) {
    this.#socket = socket;
    this.#remoteAddress = socket.remoteAddress ?? "";
    this.#onDefect = onDefect;
    // First to last: Node's own listeners come and go with the protocol.
    socket.on("error", () => socket.destroy());
    // The handle is older than the context, so that its events begin outside.
    const emit = socket.emit.bind(socket) as (...event: unknown[]) => boolean;
    socket.emit = (...event: unknown[]) => this.run(() => emit(...event)) ?? false;
  }

  /** The one that the running code works for, if any: also in a listener of `uncaughtException`. */
  static current(): Connection | undefined {
    return context.getStore();
  }

  /** Runs work for the connection. Undefined where it throws, which ends the connection. */
  run<T>(work: () => T): T | undefined {
    try {
      return context.run(this, work);
    } catch (error) {
      this.fail(error);
      return undefined;
    }
  }

  /** Ends the connection for a defect. */
  fail(error: unknown): void {
    this.#onDefect(error, this.#remoteAddress);
    this.#socket.destroy();
  }
}

/** Has the server do all that it does for a connection in that connection's name. Before it listens. */
export function confineConnections(server: Server, onDefect: OnDefect): void {
  const listeners = server.listeners("connection");
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    const connection = new Connection(socket, onDefect);
    for (const listener of listeners) connection.run(() => listener.call(server, socket));
  });
}
