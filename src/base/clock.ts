/** Source of time; tests replace it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. May go back; users that cannot tolerate that must guard against it. */
  now(): number;
}

/** Assumed difference between the clocks of two replicas, in milliseconds. */
export const clockDifferenceMs = 30_000;
/** Seconds by which the clocks of issuers and callers may differ from ours. */
export const clockToleranceSeconds = clockDifferenceMs / 1_000;

export const systemClock: Clock = { now: () => Date.now() };
