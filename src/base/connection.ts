/**
 * Which connection the code that runs now works for, so that a defect ends that connection and no other. The context
 * is set once for each connection; Node hands it on to parsers, streams, timers and promises by itself, and has to for
 * its own sake, so that requests cost the same.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Server, Socket } from "node:net";
import { addressGroup } from "./network.ts";
import type { OpenAnswer } from "./open-answers.ts";
import { localSums } from "./sums.ts";

/** Told of every defect: what was thrown, and the address of the peer whose connection it ends. */
export type OnDefect = (error: unknown, remoteAddress: string) => void;

const context = new AsyncLocalStorage<Connection>();

/**
 * Runs work that outlives the connection that began it, and that others share: whatever that throws belongs to nobody.
 */
export const outsideConnections = AsyncLocalStorage.snapshot();

/** An accepted connection. */
export class Connection {
  #socket: Socket | undefined;
  readonly #remoteAddress: string;
  readonly #onDefect: OnDefect;
  #exchanges = 0;

  constructor(socket: Socket, onDefect: OnDefect) {
    this.#socket = socket;
    this.#remoteAddress = socket.remoteAddress ?? "";
    this.#onDefect = onDefect;
    // First to last: Node's own listeners come and go with the protocol.
    socket.on("error", () => socket.destroy());
    // What Node never ends, such as SETTINGS that a peer has not acknowledged, keeps its context: the connection with it,
    // but not the socket, which leads to the session and so to those very SETTINGS.
    socket.once("close", () => {
      this.#socket = undefined;
    });
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
    this.end();
  }

  /** An exchange of the connection begins; it ends when its answer closes. */
  begin(answer: OpenAnswer): void {
    this.#exchanges += 1;
    answer.once("close", () => {
      this.#exchanges -= 1;
    });
  }

  /** Whether nothing is under way on it. */
  get isIdle(): boolean {
    return this.#exchanges === 0;
  }

  end(): void {
    this.#socket?.destroy();
  }
}

export interface ConnectionOptions {
  readonly onDefect: OnDefect;
  /** Connections that may be open at once. One address has half of them at most. */
  readonly maxConnections: number;
  /** Whether an address is many callers', as a proxy's is: it may have all. */
  readonly isShared?: (remoteAddress: string) => boolean;
  /** Told of each connection that was refused, because there are too many. */
  readonly onRefused?: (remoteAddress: string) => void;
}

/** Under which all connections count. No address is called that. */
const all = "all";

/**
 * Has the server do all that it does for a connection in that connection's name, and holds their number. Before it
 * listens. Where there are too many, a connection with nothing under way makes room for a new one.
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

/** Connections that are looked at to find an idle one: more would make every refusal cost more. */
const maxLookedAt = 64;

/** Connections, each with what is to be done when it is open no longer. */
class OpenConnections {
  readonly #open = new Map<Connection, () => void>();

  /** Returns what says that it is closed, for as long as it has not been ended here. */
  add(connection: Connection, onLeft: () => void): () => void {
    this.#open.set(connection, onLeft);
    return () => {
      if (this.#open.delete(connection)) onLeft();
    };
  }

  /** Ends the first idle one of those that have not been looked at for longest, which counts no longer at once. */
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
