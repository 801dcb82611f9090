/** Counters of attempts and quotas in memory, by time that is in the test's hands. */
import type { AttemptLimit, PortionCounters } from "../../../src/domain/ports.ts";

/** Counters that several gateways share, each with its own clock. */
export function sharedCounters(): (now: () => number) => PortionCounters {
  const rows = new Map<string, { taken: number; endsAtMs: number }>();
  return (now) => {
    const rowOf = ({ tenantId, counter, windowMs }: AttemptLimit) => {
      const key = `${tenantId} ${counter}`;
      const row = rows.get(key);
      if (row !== undefined && row.endsAtMs > now()) return row;
      const fresh = { taken: 0, endsAtMs: now() + windowMs };
      rows.set(key, fresh);
      return fresh;
    };
    return {
      async takePortion(limit, wanted) {
        const row = rowOf(limit);
        const granted = Math.min(wanted, Math.max(0, limit.maximum - row.taken));
        row.taken += granted;
        return { granted, left: Math.max(0, limit.maximum - row.taken), endsAtMs: row.endsAtMs };
      },
      async giveBackPortion(limit, unused, endsAtMs) {
        const row = rowOf(limit);
        if (row.endsAtMs === endsAtMs) row.taken = Math.max(0, row.taken - unused);
      },
    };
  };
}
