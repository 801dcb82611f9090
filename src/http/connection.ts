/**
 * Attributes running code to a connection, so that a defect ends that connection and no other. The context is set once
 * per connection; Node propagates it to parsers, streams, timers and promises anyway, so it adds no cost per request.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Server, Socket } from "node:net";
import { addressGroup } from "../base/network.ts";
import { localSums } from "../base/sums.ts";

/** Called for every defect, with the error and the address of the peer whose connection it ends. */
export type OnDefect = (error: unknown, remoteAddress: string) => void;

const context = new AsyncLocalStorage<Connection>();

export class Connection {
  #socket: Socket | undefined;
  readonly #remoteAddress: string;
  readonly #onDefect: OnDefect;
  /** Open answers. */
  exchanges = 0;

  constructor(socket: Socket, onDefect: OnDefect) {
    this.#socket = socket;
    this.#remoteAddress = socket.remoteAddress ?? "";
    this.#onDefect = onDefect;
    // First and last listener: Node's own change with the protocol.
    socket.on("error", () => socket.destroy());
    // Work that never ends in Node, such as unacknowledged SETTINGS, keeps its context and so this connection in
    // memory, but must not keep the socket, which refers to the session and its SETTINGS.
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

  get isIdle(): boolean {
    return this.exchanges === 0;
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

/**
 * Runs all of the server's work in the context of its connection, and limits the number of connections. Call before it
 * listens. At the limit an idle connection makes room for a new one.
 */
export function confineConnections(server: Server, options: ConnectionOptions): void {
  const { onDefect, maxConnections, onRefused, isShared = () => false } = options;
  const counts = localSums();
  const open = new Set<Connection>();
  const listeners = server.listeners("connection");
  server.removeAllListeners("connection");
  const enter = (address: string | undefined): boolean => {
    if (address !== undefined && !counts.add(address, 1, Math.ceil(maxConnections / 2))) return false;
    if (open.size < maxConnections || endIdle(open)) return true;
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
    open.add(connection);
    socket.once("close", () => {
      open.delete(connection);
      if (address !== undefined) counts.subtract(address, 1);
    });
    for (const listener of listeners) connection.run(() => listener.call(server, socket));
  });
}

/** Connections examined to find an idle one; bounds the cost of a refusal. */
const maxLookedAt = 64;

/** Ends the first idle connection among the least recently examined ones. Returns whether there was one. */
function endIdle(open: Set<Connection>): boolean {
  let lookedAt = 0;
  for (const connection of open) {
    open.delete(connection);
    if (connection.isIdle) {
      connection.end();
      return true;
    }
    open.add(connection);
    lookedAt += 1;
    if (lookedAt === maxLookedAt) return false;
  }
  return false;
}

// Bounds answers that their callers do not read: over HTTP/2 behind a window of zero, over HTTP/1.1 behind a full
// socket. Each holds memory, so their time and number are limited.

/** An HTTP/1.1 response or an HTTP/2 stream. */
export interface OpenAnswer {
  readonly writableEnded: boolean;
  readonly writableLength: number;
  once(event: "close", listener: () => void): unknown;
}

export interface AnswerLimits {
  /** Time until a complete answer must have been read, in milliseconds. */
  readonly answerTimeoutMs: number;
  /** Most waiting answers, over all connections. */
  readonly maxWaiting?: number;
  /** Most bytes that they hold together. */
  readonly maxWaitingBytes?: number;
}

/** Share of the limits for one address, so that one that does not read is cut off before others. */
const addressPart = 1 / 4;

/** Polling interval, and the shortest wait that counts, in milliseconds. */
const pollIntervalMs = 500;
/** Usual answers have some kilobytes and are read at once; this leaves room for short network problems. */
const defaultMaxWaiting = 1_024;
const defaultMaxWaitingBytes = 64 * 1024 * 1024;

interface Exchange {
  readonly answer: OpenAnswer;
  readonly cut: () => void;
  /** Called when the answer has waited. */
  readonly addressOf: (() => string) | undefined;
}

/** Waiting answers of all callers or of one address. */
interface Share {
  count: number;
  bytes: number;
  readonly part: number;
}

interface Entry {
  /**
   * Cleared when the answer is done. A growing Set copies its table; the old table, once promoted to the old
   * generation, keeps its entries alive until the next full collection.
   */
  exchange: Exchange | undefined;
  waitingSinceMs: number | undefined;
  address?: string | undefined;
}

/** Unfinished answers, oldest first. */
export class OpenAnswers {
  readonly #limits: Required<AnswerLimits>;
  readonly #open = new Set<Entry>();
  readonly #pollTimer: NodeJS.Timeout;

  constructor(limits: AnswerLimits) {
    this.#limits = { maxWaiting: defaultMaxWaiting, maxWaitingBytes: defaultMaxWaitingBytes, ...limits };
    this.#pollTimer = setInterval(() => this.#poll(performance.now()), pollIntervalMs);
    this.#pollTimer.unref();
  }

  /**
   * Tracks an exchange of the current connection from its start; `cut` ends it if its answer is not read.
   * @param addressOf the caller's address, if it distinguishes slow readers
   */
  add(answer: OpenAnswer, cut: () => void, addressOf?: () => string): void {
    const entry: Entry = { exchange: { answer, cut, addressOf }, waitingSinceMs: undefined };
    this.#open.add(entry);
    const connection = Connection.current();
    if (connection !== undefined) connection.exchanges += 1;
    answer.once("close", () => {
      if (connection !== undefined) connection.exchanges -= 1;
      this.#open.delete(entry);
      entry.exchange = undefined;
    });
  }

  close(): void {
    clearInterval(this.#pollTimer);
  }

  /** Cuts answers that timed out, and, beyond the limits of an address or of all, the oldest waiting ones. */
  #poll(nowMs: number): void {
    const { answerTimeoutMs, maxWaiting, maxWaitingBytes } = this.#limits;
    const waiting: { readonly exchange: Exchange; readonly sinceMs: number; readonly shares: readonly Share[] }[] = [];
    const all: Share = { count: 0, bytes: 0, part: 1 };
    const ofAddresses = new Map<string, Share>();
    for (const entry of this.#open) {
      const { exchange } = entry;
      if (exchange === undefined || !isWaiting(exchange.answer)) {
        entry.waitingSinceMs = undefined;
        continue;
      }
      entry.waitingSinceMs ??= nowMs;
      if (nowMs - entry.waitingSinceMs < pollIntervalMs) continue;
      entry.address ??= exchange.addressOf?.();
      const shares = [all];
      if (entry.address !== undefined) {
        const share = ofAddresses.get(entry.address) ?? { count: 0, bytes: 0, part: addressPart };
        ofAddresses.set(entry.address, share);
        shares.push(share);
      }
      count(shares, 1, exchange.answer.writableLength);
      waiting.push({ exchange, sinceMs: entry.waitingSinceMs, shares });
    }
    for (const { exchange, sinceMs, shares } of waiting) {
      const isWithin = ({ count, bytes, part }: Share) => count <= maxWaiting * part && bytes <= maxWaitingBytes * part;
      if (nowMs - sinceMs < answerTimeoutMs && shares.every(isWithin)) continue;
      count(shares, -1, -exchange.answer.writableLength);
      exchange.cut();
    }
  }
}

function count(shares: readonly Share[], answers: number, bytes: number): void {
  for (const share of shares) {
    share.count += answers;
    share.bytes += bytes;
  }
}

/**
 * Whether everything produced so far waits for the caller. A streamed answer is produced in parts. A written answer
 * counts until it closes: an HTTP/2 stream stays open until its caller ends its side too.
 */
function isWaiting({ writableEnded, writableLength }: OpenAnswer): boolean {
  return writableEnded || writableLength > 0;
}
