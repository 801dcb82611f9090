/** Where the time comes from. Tests own it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. May go back; users that must not, guard against it. */
  now(): number;
}

/** The machine's clock. */
export const systemClock: Clock = { now: () => Date.now() };
