/** The workers of a service: started together, replaced when they die, asked together, and stopped together. */
import type { CheckResult } from "../../ops/readiness.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { MetricsMerger, MetricsSnapshot } from "../../telemetry/merged-metrics.ts";
import type { WorkerThread } from "./thread.ts";

export interface FleetOptions {
  readonly workers: number;
  /** Starts the worker in this place. */
  readonly start: (index: number) => WorkerThread;
  /** What a worker had taken of what all share is free again. */
  readonly forget: (index: number) => void;
  readonly logger: Logger;
  readonly merger: MetricsMerger;
  /** A worker cannot be replaced: the service is to end, for this reason. */
  readonly onHopeless: (reason: Error) => void;
}

/** Time for a worker to say what it has measured: what it said last stands otherwise. */
const metricsTimeoutMs = 1_000;
/** What a worker may take longer to close than calls in flight may take. */
const closeMarginMs = 5_000;
/** First pause before a worker is replaced that did not live for `soundAfterMs`; it doubles, up to the longest. */
const minRestartDelayMs = 50;
const maxRestartDelayMs = 2_000;
const soundAfterMs = 10_000;

export class Fleet {
  readonly #options: FleetOptions;
  /** By place; a worker that is being replaced is there from when its successor is started. */
  readonly #threads = new Map<number, WorkerThread>();
  /** What workers counted that are no more. */
  #counted: MetricsSnapshot = [];
  #port: number | undefined;
  #failuresInARow = 0;
  #isClosing = false;

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  /** Starts all of them. Rejects with the first one's reason why it cannot start; none is left then. */
  async start(): Promise<void> {
    const threads = Array.from({ length: this.#options.workers }, (_, index) => this.#startThread(index));
    try {
      await Promise.all(threads.map(({ built }) => built));
    } catch (error) {
      await this.terminate();
      throw error;
    }
    for (const [index, thread] of this.#threads) this.#replaceWhenEnded(index, thread);
  }

  /** All listen on one port; resolves with it. */
  async listen(port: number): Promise<number> {
    let bound = port;
    for (const thread of this.#threads.values()) {
      bound = await thread.peer.ask("listen", bound);
      thread.isListening = true;
    }
    this.#port = bound;
    return bound;
  }

  get threads(): readonly WorkerThread[] {
    return [...this.#threads.values()];
  }

  /** Has all of them look at the keys of an issuer, but for the one that saw them change. */
  followKeys(issuer: string, except?: number): void {
    for (const [index, { peer }] of this.#threads) if (index !== except) peer.tell("followKeys", issuer);
  }

  /** Readiness checks of all workers that are there. */
  async checks(): Promise<readonly CheckResult[]> {
    const found = await Promise.all(this.threads.map(async ({ peer }) => peer.ask("checks").catch(() => [])));
    return found.flat();
  }

  /** What all workers have measured, those that are no more included. */
  async metrics(): Promise<readonly MetricsSnapshot[]> {
    await Promise.all(this.threads.map((thread) => measure(thread)));
    return [this.#counted, ...this.threads.map(({ measured }) => measured)];
  }

  /** Has all of them stop. Resolves with whether none had to cut anything off. */
  async close(graceMs: number): Promise<boolean> {
    this.#isClosing = true;
    const closed = await Promise.all(
      this.threads.map(async (thread) => {
        const late = new Promise<boolean>((resolve) =>
          setTimeout(() => resolve(false), graceMs + closeMarginMs).unref(),
        );
        return Promise.race([thread.peer.ask("close").catch(() => false), late]);
      }),
    );
    await this.terminate();
    return closed.every((clean) => clean);
  }

  async terminate(): Promise<void> {
    this.#isClosing = true;
    await Promise.all(this.threads.map((thread) => thread.terminate()));
  }

  #startThread(index: number): WorkerThread {
    const thread = this.#options.start(index);
    this.#threads.set(index, thread);
    return thread;
  }

  #replaceWhenEnded(index: number, thread: WorkerThread): void {
    const since = performance.now();
    void thread.ended.then(async (cause) => {
      this.#threads.delete(index);
      this.#options.forget(index);
      this.#counted = await this.#options.merger.countedBy([this.#counted, thread.measured]);
      if (this.#isClosing) return;
      this.#failuresInARow = performance.now() - since < soundAfterMs ? this.#failuresInARow + 1 : 0;
      const { logger } = this.#options;
      const restartInMs =
        this.#failuresInARow === 0 ? 0 : Math.min(maxRestartDelayMs, minRestartDelayMs * 2 ** this.#failuresInARow);
      logger.error({ worker: index + 1, err: cause, restart_in_ms: restartInMs }, "a worker ended and is replaced");
      setTimeout(() => void this.#replace(index), restartInMs).unref();
    });
  }

  async #replace(index: number): Promise<void> {
    if (this.#isClosing) return;
    const thread = this.#startThread(index);
    try {
      await thread.built;
      if (this.#port !== undefined) {
        await thread.peer.ask("listen", this.#port);
        thread.isListening = true;
      }
      this.#replaceWhenEnded(index, thread);
    } catch (error) {
      if (this.#isClosing) return;
      this.#options.onHopeless(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

async function measure(thread: WorkerThread): Promise<void> {
  const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), metricsTimeoutMs).unref());
  const measured = await Promise.race([thread.peer.ask("metrics").catch(() => undefined), late]);
  if (measured !== undefined) thread.measured = measured;
}
