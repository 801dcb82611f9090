/**
 * Bounds answers that their callers do not read: over HTTP/2 behind a window of zero, over HTTP/1.1 behind a full
 * socket. Each holds memory, so their time and number are limited.
 */

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
   * Tracks an exchange from its start; `cut` ends it if its answer is not read.
   * @param addressOf the caller's address, if it distinguishes slow readers
   */
  add(answer: OpenAnswer, cut: () => void, addressOf?: () => string): void {
    const entry: Entry = { exchange: { answer, cut, addressOf }, waitingSinceMs: undefined };
    this.#open.add(entry);
    answer.once("close", () => {
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
