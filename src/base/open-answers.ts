/**
 * Answers that their callers do not take: over HTTP/2 behind a window of zero, over HTTP/1.1 behind a full socket. Each
 * holds memory, so none waits for ever, and there are never too many.
 */

/** What both kinds of answer are to whoever counts them: a response of HTTP/1.1, or a stream of HTTP/2. */
export interface OpenAnswer {
  readonly writableEnded: boolean;
  readonly writableLength: number;
  once(event: "close", listener: () => void): unknown;
}

export interface AnswerLimits {
  /** Longest time that an answer which is made waits until all of it is taken, in milliseconds. */
  readonly answerTimeoutMs: number;
  /** Answers that may wait at once, of all connections. */
  readonly maxWaiting?: number;
  /** Bytes that these may hold together. */
  readonly maxWaitingBytes?: number;
}

/** What part of the limits one address has, so that who reads nothing is cut off before others are. */
const addressPart = 1 / 4;

/** How often it is looked who waits, and the shortest wait that counts, in milliseconds. */
const pollIntervalMs = 500;
/** Ordinary answers are some kilobytes, and are taken at once: there is room for a moment's bad network. */
const defaultMaxWaiting = 1_024;
const defaultMaxWaitingBytes = 64 * 1024 * 1024;

interface Exchange {
  readonly answer: OpenAnswer;
  readonly cut: () => void;
  /** Asked when it has waited. */
  readonly addressOf: (() => string) | undefined;
}

/** What waits in all, or of one address. */
interface Share {
  count: number;
  bytes: number;
  /** Part of the limits that it has. */
  readonly part: number;
}

interface Entry {
  /**
   * Absent once its answer is out. A set that outlives its members grows by making a new table; the old one, once the
   * collector has moved it to the old generation, keeps alive whatever it had until the next full collection.
   */
  exchange: Exchange | undefined;
  waitingSinceMs: number | undefined;
  address?: string | undefined;
}

/** The answers that are not out yet, the oldest first. */
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
   * Counts an exchange from its beginning; `cut` ends it if its answer is not taken.
   * @param addressOf the caller's address, if those who read nothing are told apart by it
   */
  add(answer: OpenAnswer, cut: () => void, addressOf?: () => string): void {
    const entry: Entry = { exchange: { answer, cut, addressOf }, waitingSinceMs: undefined };
    this.#open.add(entry);
    answer.once("close", () => {
      this.#open.delete(entry);
      entry.exchange = undefined;
    });
  }

  /** Stops looking. */
  close(): void {
    clearInterval(this.#pollTimer);
  }

  /** Cuts off those whose time is up, and beyond the limits those that have waited longest: of an address, or of all. */
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
 * Whether all of it that is made is on its caller to take. Of one that goes on, what is made is a part. One that is
 * written is not over before it is closed: a stream stays open until its caller has ended its side too.
 */
function isWaiting({ writableEnded, writableLength }: OpenAnswer): boolean {
  return writableEnded || writableLength > 0;
}
