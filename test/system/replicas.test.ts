/** Two gateways on one store under load, killed at random: a short form of `npm run soak`. */
import { expect, test } from "vitest";
import { runSoak } from "../../bench/soak-run.ts";
import { forTest } from "../harness/lifetimes.ts";
import { testStores } from "../harness/stores.ts";

test.each(testStores)(
  "on %s nothing acknowledged is lost, doubled or mixed up",
  async (_name, startStore) => {
    const store = await forTest(startStore());
    const { kills, called, records, problems } = await runSoak({
      store,
      gateways: 2,
      tenants: 20,
      callers: 12,
      durationMs: 20_000,
      lifeMs: { shortest: 500, longest: 10_000 },
      seed: 1,
    });
    expect(problems).toEqual([]);
    expect(kills).toBeGreaterThan(1);
    expect(records).toBeGreaterThanOrEqual(called.acknowledged.length);
    for (const count of [called.acknowledged.length, called.keyed.size, called.repeated, called.sessions])
      expect(count).toBeGreaterThan(0);
  },
  // Gateways start again and again, and it goes on until everything was seen.
  300_000,
);
