/** What every store keeps for a short time for all replicas: used proofs, and attempts. One suite for all of them. */
import { beforeEach, describe, expect, test } from "vitest";
import { takeAttempt } from "../../src/domain/session.ts";
import type { ServiceStores } from "../../src/stores/sql/backend.ts";
import { manualClock, seededRandom, tenant } from "./ledger-records.ts";
import type { StoreFixture } from "./store-fixture.ts";

const alice = tenant("alice");
const bob = tenant("bob");
const minuteMs = 60_000;

export function describeShared(name: string, newFixture: () => Promise<StoreFixture>): void {
  describe(name, () => {
    let fixture: StoreFixture;
    let clock: ReturnType<typeof manualClock>;
    let stores: ServiceStores[];
    const random = seededRandom();
    /** Opens the store, as another replica does: with a connection of its own. */
    const open = async (ownClock = clock) => {
      const store = await fixture.openStores({ clock: ownClock, random });
      stores.push(store);
      return store.shared;
    };
    const close = async () => {
      for (const { ledger } of stores.splice(0)) await ledger.close();
    };
    const count = async (table: "proof_uses" | "attempts") => (await fixture.query(`SELECT 1 FROM ${table}`)).length;
    beforeEach(async () => {
      fixture = await newFixture();
      clock = manualClock();
      stores = [];
    });

    describe("a used proof", () => {
      const use = { tenantId: alice, proof: "p".repeat(43) };
      const later = () => clock.now() + 90_000;

      test("is accepted once, over all replicas and restarts", async () => {
        const [one, two] = [await open(), await open()];
        expect(await one.firstUse(use, later())).toBe(true);
        expect(await one.firstUse(use, later())).toBe(false);
        expect(await two.firstUse(use, later())).toBe(false);
        await close();
        expect(await (await open()).firstUse(use, later())).toBe(false);
      });

      test("is accepted once of many at once", async () => {
        const replicas = [await open(), await open()];
        const calls = Array.from({ length: 200 }, (_, i) => replicas[i % 2]?.firstUse(use, later()));
        expect((await Promise.all(calls)).filter((first) => first)).toHaveLength(1);
      });

      test("is separate for each tenant and each proof", async () => {
        const replica = await open();
        const uses = [use, { ...use, tenantId: bob }, { ...use, proof: "q".repeat(43) }];
        expect(await Promise.all(uses.map((each) => replica.firstUse(each, later())))).toEqual([true, true, true]);
      });

      test("is kept until it expires, and removed with later ones", async () => {
        const replica = await open();
        const useMany = (prefix: string) =>
          Promise.all(
            Array.from({ length: 100 }, (_, i) =>
              replica.firstUse({ ...use, proof: prefix + i }, clock.now() + 90_000),
            ),
          );
        await useMany("early");
        clock.nowMs += 89_999;
        await useMany("meanwhile");
        expect(await count("proof_uses")).toBe(200);
        expect(await replica.firstUse({ ...use, proof: "early0" }, later())).toBe(false);
        clock.nowMs += 1;
        await useMany("late");
        expect(await count("proof_uses")).toBe(200);
      });
    });

    describe("an attempt", () => {
      /** The counters whose limits are reached. */
      const reachedOf = async (...attempt: Parameters<typeof takeAttempt>) =>
        (await takeAttempt(...attempt)).reached.map(({ limit, endsAtMs }) => [limit.counter, endsAtMs - clock.nowMs]);

      const limit = { tenantId: alice, counter: "client", maximum: 3, windowMs: minuteMs };
      const address = { tenantId: undefined, counter: "address", maximum: 5, windowMs: minuteMs };

      test("counts under all limits or under none", async () => {
        const replica = await open();
        for (let i = 0; i < 3; i++) await takeAttempt(replica, [limit, address]);
        for (let i = 0; i < 3; i++) expect(await reachedOf(replica, [limit, address])).toEqual([["client", minuteMs]]);
        const other = { ...limit, counter: "other" };
        expect(await reachedOf(replica, [other, address])).toEqual([]);
        expect(await reachedOf(replica, [other, address])).toEqual([]);
        expect(await reachedOf(replica, [other, address])).toEqual([["address", minuteMs]]);
        expect(await reachedOf(replica, [other])).toEqual([]);
      });
    });

    describe("a portion", () => {
      const limit = { tenantId: alice, counter: "quota", maximum: 10, windowMs: minuteMs };
      /** Of a window that ends after so many milliseconds. */
      const portion = (granted: number, left: number, afterMs = minuteMs) => ({
        ...{ granted, left },
        endsAtMs: clock.nowMs + afterMs,
      });

      test("is the wanted amount or what is left, over all replicas, and whole again in the next window", async () => {
        const [one, two] = [await open(), await open()];
        expect(await one.takePortion(limit, 4)).toEqual(portion(4, 6));
        clock.nowMs += 20_000;
        expect(await two.takePortion(limit, 4)).toEqual(portion(4, 2, 40_000));
        expect(await one.takePortion(limit, 4)).toEqual(portion(2, 0, 40_000));
        expect(await two.takePortion(limit, 4)).toEqual(portion(0, 0, 40_000));
        clock.nowMs += 39_999;
        expect(await two.takePortion(limit, 4)).toEqual(portion(0, 0, 1));
        clock.nowMs += 1;
        expect(await two.takePortion(limit, 10)).toEqual(portion(10, 0));
      });

      test("never exceeds the limit under concurrency", async () => {
        const replicas = [await open(), await open()];
        const of = { ...limit, maximum: 1_000 };
        const taken = await Promise.all(Array.from({ length: 60 }, (_, i) => replicas[i % 2]?.takePortion(of, 30)));
        expect(taken.reduce((sum, each) => sum + (each?.granted ?? 0), 0)).toBe(1_000);
      });

      test("that is partly returned leaves as much to others, in its own window only", async () => {
        const replica = await open();
        const { endsAtMs } = await replica.takePortion(limit, 8);
        // More than there was is granted in part, and leaves nothing beyond that behind.
        expect(await replica.takePortion(limit, 8)).toEqual(portion(2, 0));
        await replica.giveBackPortion(limit, 3, endsAtMs);
        expect(await replica.takePortion(limit, 8)).toEqual(portion(3, 0));
        clock.nowMs += minuteMs;
        await replica.giveBackPortion(limit, 5, endsAtMs);
        expect(await replica.takePortion(limit, 10)).toEqual(portion(10, 0));
        // Of the window before, it leaves nothing to this one.
        await replica.giveBackPortion(limit, 5, endsAtMs);
        expect(await replica.takePortion(limit, 10)).toEqual(portion(0, 0));
        await replica.giveBackPortion(limit, 999, endsAtMs + minuteMs);
        expect(await replica.takePortion(limit, 10)).toEqual(portion(10, 0));
      });

      test("follows the current limit, for each tenant", async () => {
        const replica = await open();
        await replica.takePortion(limit, 10);
        expect(await replica.takePortion({ ...limit, maximum: 4 }, 4)).toEqual(portion(0, 0));
        expect(await replica.takePortion({ ...limit, maximum: 15 }, 4)).toEqual(portion(4, 1));
        for (const tenantId of [bob, undefined])
          expect(await replica.takePortion({ ...limit, tenantId }, 4)).toEqual(portion(4, 6));
        const largest = { ...limit, counter: "largest", maximum: 1_000_000_000 };
        expect(await replica.takePortion(largest, largest.maximum)).toEqual(portion(largest.maximum, 0));
        expect(await replica.takePortion(largest, largest.maximum)).toEqual(portion(0, 0));
      });

      test.each([1_000, minuteMs])(
        "never exceeds the limit if clocks differ, of windows of %d ms",
        async (windowMs) => {
          const ahead = manualClock(clock.nowMs + 20_000);
          const [one, two] = [await open(), await open(ahead)];
          const of = { ...limit, windowMs };
          let granted = 0;
          // In half a window, on both clocks.
          for (let i = 0; i < 10; i++) {
            for (const replica of [two, one]) granted += (await replica.takePortion(of, 3)).granted;
            clock.nowMs += windowMs / 20;
            ahead.nowMs += windowMs / 20;
          }
          expect(granted).toBe(10);
        },
      );

      test("is granted again if the clock goes back by more than a window", async () => {
        const replica = await open();
        await replica.takePortion(limit, 10);
        clock.nowMs -= 3_600_000;
        expect(await replica.takePortion(limit, 10)).toEqual(portion(10, 0));
      });

      test("is removed after its window, with later ones", async () => {
        const replica = await open();
        for (let i = 0; i < 20; i++) await replica.takePortion({ ...limit, counter: `early-${i}` }, 1);
        clock.nowMs += minuteMs;
        for (let i = 0; i < 2; i++) await replica.takePortion({ ...limit, counter: `late-${i}` }, 1);
        expect(await count("attempts")).toBe(2);
      });
    });
  });
}
