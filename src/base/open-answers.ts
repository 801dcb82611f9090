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

/** How often it is looked who waits, and the shortest wait that counts, in milliseconds. */
const pollIntervalMs = 500;
/** Ordinary answers are some kilobytes, and are taken at once: there is room for a moment's bad network. */
const defaultMaxWaiting = 1_024;
const defaultMaxWaitingBytes = 64 * 1024 * 1024;

interface Exchange {
  readonly answer: OpenAnswer;
  readonly cut: () => void;
}

interface Entry {
  /**
   * Absent once its answer is out. A set that outlives its members grows by making a new table; the old one, once the
   * collector has moved it to the old generation, keeps alive whatever it had until the next full collection.
   */
  exchange: Exchange | undefined;
  waitingSinceMs: number | undefined;
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

  /** Counts an exchange from its beginning; `cut` ends it where its answer is not taken. */
  add(answer: OpenAnswer, cut: () => void): void {
    const entry: Entry = { exchange: { answer, cut }, waitingSinceMs: undefined };
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

  /** Cuts off those whose time is up, and beyond the limits those that have waited longest. */
  #poll(nowMs: number): void {
    const { answerTimeoutMs, maxWaiting, maxWaitingBytes } = this.#limits;
    const waiting: (Exchange & { readonly sinceMs: number })[] = [];
    let bytes = 0;
    for (const entry of this.#open) {
      const { exchange } = entry;
      if (exchange === undefined || !isWaiting(exchange.answer)) {
        entry.waitingSinceMs = undefined;
        continue;
      }
      entry.waitingSinceMs ??= nowMs;
      if (nowMs - entry.waitingSinceMs < pollIntervalMs) continue;
      waiting.push({ ...exchange, sinceMs: entry.waitingSinceMs });
      bytes += exchange.answer.writableLength;
    }
    let count = waiting.length;
    for (const { answer, cut, sinceMs } of waiting) {
      if (nowMs - sinceMs < answerTimeoutMs && count <= maxWaiting && bytes <= maxWaitingBytes) continue;
      count -= 1;
      bytes -= answer.writableLength;
      cut();
    }
  }
}

/**
 * Whether all of it that is made is on its caller to take. Of one that goes on, what is made is a part. One that is
 * written is not over before it is closed: a stream stays open until its caller has ended its side too.
 */
function isWaiting({ writableEnded, writableLength }: OpenAnswer): boolean {
  return writableEnded || writableLength > 0;
}
