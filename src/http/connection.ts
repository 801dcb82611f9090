/**
 * Attributes running code to a connection, so that a defect ends that connection and no other. The context is set once
 * per connection; Node propagates it to parsers, streams, timers and promises anyway, so it adds no cost per request.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Server, Socket } from "node:net";
import { addressGroup } from "../base/network.ts";
import { localSums } from "../base/sums.ts";
import type { OpenAnswer } from "./open-answers.ts";

/** Called for every defect, with the error and the address of the peer whose connection it ends. */
export type OnDefect = (error: unknown, remoteAddress: string) => void;

const context = new AsyncLocalStorage<Connection>();

export class Connection {
  #socket: Socket | undefined;
  readonly #remoteAddress: string;
  readonly #onDefect: OnDefect;
  #exchanges = 0;

  constructor(socket: Socket, onDefect: OnDefect) {
    this.#socket = socket;
    this.#remoteAddress = socket.remoteAddress ?? "";
    this.#onDefect = onDefect;
    // First and last listener: Node's own change with the protocol.
    socket.on("error", () => socket.destroy());
    // What never ends in Node, such as unacknowledged SETTINGS, keeps its context and so the connection, but must not
    // keep the socket, which refers to the session and its SETTINGS.
    socket.once("close", () => {
      this.#socket = undefined;
    });
    // The handle is older than the context, so its events start outside.
    const emit = socket.emit.bind(socket) as (...event: unknown[]) => boolean;
    socket.emit = (...event: unknown[]) => this.run(() => emit(...event)) ?? false;
  }

  /** The connection of the running code, if any; also in a listener of `uncaughtException`. */
  static current(): Connection | undefined {
    return context.getStore();
  }

  /** Runs work for the connection. Returns undefined if it throws, which ends the connection. */
  run<T>(work: () => T): T | undefined {
    try {
      return context.run(this, work);
    } catch (error) {
      this.fail(error);
      return undefined;
    }
  }

  /** Ends the connection because of a defect. */
  fail(error: unknown): void {
    this.#onDefect(error, this.#remoteAddress);
    this.end();
  }

  /** Counts an exchange of the connection until its answer closes. */
  begin(answer: OpenAnswer): void {
    this.#exchanges += 1;
    answer.once("close", () => {
      this.#exchanges -= 1;
    });
  }

  get isIdle(): boolean {
    return this.#exchanges === 0;
  }

  end(): void {
    this.#socket?.destroy();
  }
}

export interface ConnectionOptions {
  readonly onDefect: OnDefect;
  /** Most open connections. One address may have half of them. */
  readonly maxConnections: number;
  /** Whether an address, such as a proxy's, carries many callers and may use all connections. */
  readonly isShared?: (remoteAddress: string) => boolean;
  /** Called for each connection that is refused because there are too many. */
  readonly onRefused?: (remoteAddress: string) => void;
}

/** Name of the total. No address equals it. */
const all = "all";

/**
 * Runs all of the server's work in the context of its connection, and limits the number of connections. Call before it
 * listens. At the limit an idle connection makes room for a new one.
 */
export function confineConnections(server: Server, options: ConnectionOptions): void {
  const { onDefect, maxConnections, onRefused, isShared = () => false } = options;
  const counts = localSums();
  const open = new OpenConnections();
  const listeners = server.listeners("connection");
  server.removeAllListeners("connection");
  const enter = (address: string | undefined): boolean => {
    if (address !== undefined && !counts.add(address, 1, Math.ceil(maxConnections / 2))) return false;
    if (counts.add(all, 1, maxConnections) || (open.endIdle() && counts.add(all, 1, maxConnections))) return true;
    if (address !== undefined) counts.subtract(address, 1);
    return false;
  };
  server.on("connection", (socket: Socket) => {
    const remoteAddress = socket.remoteAddress ?? "";
    const address = isShared(remoteAddress) ? undefined : addressGroup(remoteAddress);
    if (!enter(address)) {
      onRefused?.(remoteAddress);
      return void socket.resetAndDestroy();
    }
    const connection = new Connection(socket, onDefect);
    const leaveAll = open.add(connection, () => counts.subtract(all, 1));
    socket.once("close", () => {
      leaveAll();
      if (address !== undefined) counts.subtract(address, 1);
    });
    for (const listener of listeners) connection.run(() => listener.call(server, socket));
  });
}

/** Connections examined to find an idle one; bounds the cost of a refusal. */
const maxLookedAt = 64;

/** Open connections, each with its callback for the end. */
class OpenConnections {
  readonly #open = new Map<Connection, () => void>();

  /** Returns the function to call when the connection has closed; it does nothing if `endIdle` ended it before. */
  add(connection: Connection, onLeft: () => void): () => void {
    this.#open.set(connection, onLeft);
    return () => {
      if (this.#open.delete(connection)) onLeft();
    };
  }

  /** Ends the first idle connection among the least recently examined ones, and frees its place at once. */
  endIdle(): boolean {
    let lookedAt = 0;
    for (const [connection, onLeft] of this.#open) {
      this.#open.delete(connection);
      if (connection.isIdle) {
        onLeft();
        connection.end();
        return true;
      }
      this.#open.set(connection, onLeft);
      lookedAt += 1;
      if (lookedAt === maxLookedAt) return false;
    }
    return false;
  }
}
