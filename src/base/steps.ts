/** Work in steps, each short: all at once where nobody waits, in turns of the event loop where somebody does. */
import { setImmediate } from "node:timers/promises";

/** Does all steps now. */
export function atOnce<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Does a step in each turn of the event loop. */
export async function inTurns<T>(steps: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await setImmediate();
  }
}
