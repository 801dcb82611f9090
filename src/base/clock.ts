/** Where the time comes from. Tests own it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. May go back; users that must not, guard against it. */
  now(): number;
}

/** By how much the clocks of two replicas may differ, in milliseconds: as much as tokens are forgiven. */
export const clockDifferenceMs = 30_000;

/** The machine's clock. */
export const systemClock: Clock = { now: () => Date.now() };
