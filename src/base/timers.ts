/** Delays, work in short steps, and work that is shared. */
import { AsyncLocalStorage } from "node:async_hooks";
import { setImmediate } from "node:timers/promises";

/** Delays; tests replace them. */
export interface Timers {
  /** Runs the action once after `delayMs` milliseconds. The returned function cancels it. Idempotent. */
  after(delayMs: number, action: () => void): () => void;
}

/** The runtime's timers. They do not keep the process alive. */
export const systemTimers: Timers = {
  after(delayMs, action) {
    // Timers serve shared work, so they run outside connections.
    const timer = setTimeout(() => outsideConnections(action), delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Does work with a signal, which aborts with the reason after `limitMs` milliseconds. Settles as the work does. */
export async function withTimeLimit<Result>(
  timers: Timers,
  limitMs: number,
  reason: () => Error,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const cancel = timers.after(limitMs, () => controller.abort(reason()));
  try {
    return await work(controller.signal);
  } finally {
    cancel();
  }
}

/** Settles as the work does, or rejects with the refusal when the signal aborts first. The work then goes on. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal, refusal: () => Error): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = () => reject(refusal());
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    work.then(
      (value) => {
        signal.removeEventListener("abort", onAbort);
        resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener("abort", onAbort);
        reject(error);
      },
    );
  });
}

/** Runs shared work outside of the connection that started it: its errors end no connection. */
export const outsideConnections = AsyncLocalStorage.snapshot();

export function atOnce<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Does one step per turn of the event loop. */
export async function inTurns<T>(steps: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await setImmediate();
  }
}

/** Items made in one turn of the event loop. */
const madeAtOnce = 64;

/** Makes something of each item, and yields to the event loop between groups of them. */
export async function mapInTurns<Item, Made>(
  items: readonly Item[],
  make: (item: Item, index: number) => Made,
): Promise<Made[]> {
  const made: Made[] = [];
  for (const [i, item] of items.entries()) {
    if (i > 0 && i % madeAtOnce === 0) await setImmediate();
    made.push(make(item, i));
  }
  return made;
}

/** Returns a function that runs the action; calls during a run share its result, whatever their arguments. */
export function singleFlight<Args extends readonly unknown[], T>(
  action: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  let running: Promise<T> | undefined;
  return (...args) => {
    running ??= action(...args).finally(() => {
      running = undefined;
    });
    return running;
  };
}
