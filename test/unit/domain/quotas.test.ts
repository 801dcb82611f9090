import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import type { TenantId } from "../../../src/base/ids.ts";
import type { QuotaTable } from "../../../src/base/quotas.ts";
import type { PortionCounters } from "../../../src/domain/ports.ts";
import { type QuotaAmounts, type QuotaHold, Quotas } from "../../../src/domain/quotas.ts";
import { sharedCounters } from "./counters.ts";

const tenantId = "tenant-a" as TenantId;
const minuteMs = 60_000;
const kib = 1024;

/** Gateways over one counter in memory, with time in the test's hands. */
function world(table: QuotaTable["defaults"]) {
  const state = { nowMs: 1_800_000_000_000, asked: 0, isDown: false, isStuck: false, table };
  const counters = sharedCounters();
  const countersAt = (now: () => number): PortionCounters => ({
    ...counters(now),
    async takePortion(limit, wanted) {
      state.asked += 1;
      if (state.isStuck) return new Promise<never>(() => {});
      if (state.isDown) throw new ServiceError("store_unavailable", "down", { retryAfterSeconds: 5 });
      return counters(now).takePortion(limit, wanted);
    },
  });
  const events: string[] = [];
  const due: { atMs: number; action: () => void }[] = [];
  const gateway = (aheadMs = 0) => {
    const now = () => state.nowMs + aheadMs;
    const quotas = new Quotas({
      table: () => ({ defaults: state.table, tenants: new Map() }),
      counters: countersAt(now),
      clock: { now },
      timers: {
        after(delayMs, action) {
          const timer = { atMs: state.nowMs + delayMs, action };
          due.push(timer);
          return () => void due.splice(due.indexOf(timer), 1);
        },
      },
      onEvent: (quota, event) => events.push(`${quota} ${event}`),
    });
    const take = async (amounts: Partial<QuotaAmounts> = {}, more: Partial<Parameters<Quotas["take"]>[0]> = {}) => {
      const all = { requests: 1, records: 0, artifact_bytes: 0, ...amounts };
      const { signal } = new AbortController();
      return quotas.take({ tenantId, amounts: all, signal, ...more });
    };
    return {
      quotas,
      take,
      isLetIn: async (amounts: Partial<QuotaAmounts> = {}) => (await take(amounts))?.refusal === undefined,
      /** Takes further amounts for items of a call. */
      takeBeside: (amounts: Partial<QuotaAmounts>) =>
        take({ requests: 0, ...amounts }, { beside: { requests: 1, records: 0, artifact_bytes: 0 } }),
    };
  };
  const pass = async (ms: number) => {
    const untilMs = state.nowMs + ms;
    for (let next = due.find(({ atMs }) => atMs <= untilMs); next; next = due.find(({ atMs }) => atMs <= untilMs)) {
      due.splice(due.indexOf(next), 1);
      state.nowMs = next.atMs;
      next.action();
      // What it set off is done by then.
      for (let i = 0; i < 10; i++) await null;
    }
    state.nowMs = untilMs;
  };
  return { state, gateway, pass, events };
}

const requestsOf = (limit: number) => ({ requests: { limit, periodSeconds: 60 } });

/** How many of so many calls are let in. */
async function letIn(calls: number, isLetIn: () => Promise<boolean>): Promise<number> {
  let count = 0;
  for (let i = 0; i < calls; i++) if (await isLetIn()) count += 1;
  return count;
}

describe("quotas", () => {
  test("ask the store once for many calls, and never for those that it refused", async () => {
    const { state, gateway } = world(requestsOf(1_000));
    const { isLetIn } = gateway();
    await letIn(1_000, isLetIn);
    expect(state.asked).toBeLessThan(100);
    await isLetIn();
    const { asked } = state;
    await letIn(10_000, isLetIn);
    expect(state.asked).toBe(asked);
  });

  test("never accept more than the limit over any number of gateways, whichever is killed when", async () => {
    const step = fc.oneof(
      { weight: 20, arbitrary: fc.record({ call: fc.nat(3), times: fc.integer({ min: 1, max: 40 }) }) },
      { weight: 1, arbitrary: fc.record({ kill: fc.nat(3) }) },
      { weight: 1, arbitrary: fc.record({ waitMs: fc.integer({ min: 1, max: 20_000 }) }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 300 }), fc.array(step, { maxLength: 40 }), async (limit, steps) => {
        const { gateway, pass, state } = world(requestsOf(limit));
        const gateways = Array.from({ length: 4 }, () => gateway());
        let [endsAtMs, inPeriod] = [0, 0];
        for (const each of steps) {
          if ("kill" in each) gateways[each.kill] = gateway();
          else if ("waitMs" in each) await pass(each.waitMs);
          else {
            // The period begins with the first call.
            if (state.nowMs >= endsAtMs) [endsAtMs, inPeriod] = [state.nowMs + minuteMs, 0];
            const { isLetIn } = gateways[each.call] as ReturnType<typeof gateway>;
            inPeriod += (await Promise.all(Array.from({ length: each.times }, isLetIn))).filter((isIn) => isIn).length;
            expect(inPeriod).toBeLessThanOrEqual(limit);
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  test("lose at most a fiftieth with a killed gateway, until the period ends", async () => {
    const { gateway, pass } = world(requestsOf(1_000));
    const [killed, other] = [gateway(), gateway()];
    const before = await letIn(30, killed.isLetIn);
    const after = await letIn(2_000, other.isLetIn);
    expect(before + after).toBeGreaterThanOrEqual(1_000 - 20);
    expect(before + after).toBeLessThanOrEqual(1_000);
    await pass(minuteMs);
    expect(await letIn(2_000, other.isLetIn)).toBe(1_000);
  });

  test("return unused amounts, for use elsewhere in the period", async () => {
    const { gateway, pass } = world(requestsOf(1_000));
    const [idle, busy] = [gateway(), gateway()];
    expect(await letIn(5, idle.isLetIn)).toBe(5);
    expect(await letIn(2_000, busy.isLetIn)).toBe(980);
    await pass(15_000);
    expect(await letIn(100, busy.isLetIn)).toBe(15);
    const stopped = gateway();
    await pass(minuteMs);
    await letIn(5, stopped.isLetIn);
    await stopped.quotas.close();
    expect(await letIn(2_000, busy.isLetIn)).toBe(995);
  });

  test("return nothing to a period that began by the clock of another gateway", async () => {
    const { gateway, pass } = world(requestsOf(1_000));
    const [behind, ahead] = [gateway(), gateway(20_000)];
    await letIn(1, behind.isLetIn);
    await pass(38_000);
    await letIn(1, behind.isLetIn);
    await pass(7_000);
    expect(await letIn(2_000, ahead.isLetIn)).toBe(1_000);
    await pass(5_000);
    expect(await letIn(2_000, ahead.isLetIn)).toBe(0);
  });

  test("take from all quotas or from none", async () => {
    const { gateway } = world({ ...requestsOf(100), records: { limit: 10, periodSeconds: 60 } });
    const { isLetIn } = gateway();
    const recorded = () => isLetIn({ records: 1 });
    expect(await letIn(50, recorded)).toBe(10);
    expect(await letIn(200, isLetIn)).toBe(90);
  });

  test("tell a call that no period has enough for to ask for less at once", async () => {
    const { gateway } = world(requestsOf(10));
    const { take, takeBeside } = gateway();
    await take();
    const beside = async (requests: number) => (await takeBeside({ requests }))?.refusal?.message;
    expect(await beside(10)).toContain("for a whole period: send less at once");
    expect(await beside(9)).toBeUndefined();
    expect(await beside(9)).toBe("the tenant's quota of requests is used up");
  });

  test.each([
    ["artifact_bytes", 100 * kib, 101 * kib],
    ["records", 10, 11],
  ] as const)("give a stream's batch all %s of a period, and no more", async (name, limit, more) => {
    const { gateway } = world({ [name]: { limit, periodSeconds: 60 } });
    const { takeBeside } = gateway();
    const beside = async (amount: number) => (await takeBeside({ [name]: amount }))?.refusal?.message;
    expect(await beside(more)).toContain("for a whole period: send less at once");
    expect(await beside(limit)).toBeUndefined();
  });

  describe("of bytes", () => {
    const bytes = { artifact_bytes: { limit: 100 * kib, periodSeconds: 60 } };

    test("accept a size beyond all of them if nothing else was used", async () => {
      const { gateway, pass } = world(bytes);
      const { isLetIn } = gateway();
      expect(await isLetIn({ artifact_bytes: 5_000 * kib })).toBe(true);
      expect(await isLetIn({ artifact_bytes: 1 })).toBe(false);
      await pass(minuteMs);
      expect(await isLetIn({ artifact_bytes: 1 })).toBe(true);
      expect(await isLetIn({ artifact_bytes: 5_000 * kib })).toBe(false);
    });

    test("count unannounced bytes once known, and announced ones that did not arrive as none", async () => {
      const { gateway } = world(bytes);
      const { take, isLetIn } = gateway();
      const announced = (await take({ artifact_bytes: 60 * kib })) as QuotaHold;
      announced.settle({ records: 0, artifact_bytes: 0 });
      const unannounced = (await take({ artifact_bytes: 1 })) as QuotaHold;
      unannounced.settle({ records: 1, artifact_bytes: 99 * kib });
      expect(await isLetIn({ artifact_bytes: 2 * kib })).toBe(false);
      expect(await isLetIn({ artifact_bytes: 1 })).toBe(true);
    });

    test.each([
      ["has paused", 0, 20_000],
      ["was still being answered meanwhile", 20_000, 0],
    ])("count unannounced bytes also of a tenant that %s", async (_, lastsMs, pausesMs) => {
      const { gateway, pass } = world(bytes);
      const { take } = gateway();
      let taken = 0;
      for (let i = 0; i < 2; i++) {
        const hold = (await take({ artifact_bytes: 1 })) as QuotaHold;
        if (hold.refusal !== undefined) continue;
        taken += 1;
        await pass(lastsMs);
        hold.settle({ records: 1, artifact_bytes: 5_000 * kib });
        await pass(pausesMs);
      }
      expect(taken).toBe(1);
    });

    test("count them under a changed table, and while a service stops", async () => {
      const { state, gateway, pass } = world(bytes);
      const { take, isLetIn, quotas } = gateway();
      const use = async () =>
        ((await take({ artifact_bytes: 1 })) as QuotaHold).settle({ records: 1, artifact_bytes: 60 * kib });
      await use();
      await quotas.close();
      expect(await gateway().isLetIn({ artifact_bytes: 50 * kib })).toBe(false);
      await pass(minuteMs);
      await use();
      state.table = { artifact_bytes: { limit: 99 * kib, periodSeconds: 60 } };
      expect(await isLetIn({ artifact_bytes: 50 * kib })).toBe(false);
    });
  });

  test("refuse calls that need the store while it is down, and count them again afterwards", async () => {
    const { state, gateway, events } = world(requestsOf(10));
    const { take, isLetIn } = gateway();
    state.isDown = true;
    await expect(take({ records: 1 })).rejects.toMatchObject({ reason: "store_unavailable" });
    const uncounted = await take();
    expect(uncounted).toMatchObject({ states: [] });
    expect(uncounted?.refusal).toBeUndefined();
    expect(events).toContain("requests uncounted");
    state.isDown = false;
    await null;
    expect(await letIn(20, () => isLetIn({ records: 1 }))).toBe(10);
  });

  test("delay no call for a store that has just failed if it is not needed", async () => {
    const { state, gateway } = world(requestsOf(10));
    const { take } = gateway();
    state.isDown = true;
    await take();
    state.isStuck = true;
    expect(await take()).toMatchObject({ states: [] });
  });

  test("take nothing for a call that ends before its turn", async () => {
    const { gateway } = world(requestsOf(10));
    const { take, isLetIn } = gateway();
    const over = new AbortController();
    const pending = take({}, { signal: over.signal });
    over.abort(new Error("gone"));
    await expect(pending).rejects.toThrow("gone");
    expect(await letIn(20, isLetIn)).toBe(10);
  });
});
