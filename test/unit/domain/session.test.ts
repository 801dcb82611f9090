import { describe, expect, test } from "vitest";
import { createFairSemaphore, type FairLimits } from "../../../src/base/fair-queue.ts";
import type { TenantId } from "../../../src/base/ids.ts";
import { createSessions, type SessionRequest } from "../../../src/domain/session.ts";
import { sharedCounters } from "./counters.ts";

const client = { tenantId: "tenant-a" as TenantId, clientId: "payroll", scopes: ["a", "b", "c"] };
const patient = new AbortController().signal;

/** Sessions over counters in memory, with time and hashing in the test's hands. */
function world(slots: FairLimits = { maximum: 2, maximumWaitingEach: 64, maximumWaiting: 64 }) {
  const state = { nowMs: 1_800_000_000_000, hashed: 0, asked: 0, hashing: Promise.resolve() };
  const counters = sharedCounters()(() => state.nowMs);
  const sessions = createSessions({
    clients: {
      async verify(tenantId, clientId, secret) {
        state.hashed += 1;
        await state.hashing;
        const found = tenantId === client.tenantId && clientId === client.clientId && secret === "right";
        return found ? client : undefined;
      },
    },
    counters: {
      ...counters,
      takePortion(limit, wanted) {
        // One limit of each attempt is the client's.
        if (limit.tenantId !== undefined) state.asked += 1;
        return counters.takePortion(limit, wanted);
      },
    },
    signer: {
      sign: async ({ clientId, scopes, certificateThumbprint }) => ({
        accessToken: JSON.stringify({ clientId, scopes, certificateThumbprint }),
        expiresInSeconds: 300,
        subject: clientId,
      }),
    },
    slots: createFairSemaphore(slots),
    clock: { now: () => state.nowMs },
  });
  const ask = async (
    secret: string,
    { address = "192.0.2.1", ...request }: Partial<SessionRequest> & { readonly address?: string } = {},
  ) => {
    const whole = {
      tenantId: client.tenantId,
      clientId: client.clientId,
      clientSecret: secret,
      requestedScopes: [],
      ...request,
    };
    try {
      return (await sessions.create(whole, { address, certificateThumbprint: undefined }, patient)).scopes.join(" ");
    } catch (error) {
      const { reason, details } = error as { reason: string; details: { retryAfterSeconds?: number } };
      return details.retryAfterSeconds === undefined ? reason : `${reason} ${details.retryAfterSeconds}`;
    }
  };
  return { state, ask };
}

describe("limits", () => {
  test("successful attempts count against the client there, and not against the address", async () => {
    const { ask } = world();
    for (let i = 0; i < 30; i++) expect(await ask("right")).toBe("a b c");
    expect(await ask("right")).toBe("rate_limited 60");
    expect(await ask("wrong", { clientId: "another" })).toBe("invalid_client");
    expect(await ask("right", { address: "192.0.2.2" })).toBe("a b c");
  });

  test.each([
    ["/56", (i: number) => `2001:db8:0:${i.toString(16)}::/64`, 40, "2001:db8:0:100::/64"],
    ["/48", (i: number) => `2001:db8:0:${(i * 256).toString(16)}::/64`, 120, "2001:db8:1::/64"],
  ])("a holder of a %s of IPv6 has one share", async (_block, addressOf, most, elsewhere) => {
    const { ask } = world();
    const outcomes: string[] = [];
    for (let i = 0; i < 200; i++) outcomes.push(await ask("wrong", { address: addressOf(i), clientId: `client-${i}` }));
    expect(outcomes.filter((outcome) => outcome === "invalid_client")).toHaveLength(most);
    expect(await ask("right", { address: addressOf(255) })).toBe("rate_limited 60");
    expect(await ask("right", { address: elsewhere })).toBe("a b c");
    expect(await ask("right")).toBe("a b c");
  });

  test.each([
    ["/56", (i: number) => `2001:db8:0:${i.toString(16)}::/64`],
    ["/48", (i: number) => `2001:db8:0:${(i * 256).toString(16)}::/64`],
  ])("a caller with a %s of IPv6 holds no slot that another caller waits for", async (_block, addressOf) => {
    const { ask, state } = world({ maximum: 2, maximumWaitingEach: 8, maximumWaiting: 32 });
    const { promise, resolve } = Promise.withResolvers<void>();
    state.hashing = promise;
    const outcomes = Array.from({ length: 100 }, (_, i) => ask("wrong", { address: addressOf(i), clientId: `${i}` }));
    await expect.poll(() => state.hashed).toBe(2);
    let hashedBefore = Number.POSITIVE_INFINITY;
    const elsewhere = ask("right", { address: "2001:db8:1::/64" }).finally(() => {
      hashedBefore = state.hashed;
    });
    resolve();
    expect(await elsewhere).toBe("a b c");
    // Those in the slots, and one whose turn came before.
    expect(hashedBefore).toBeLessThanOrEqual(6);
    expect(Object.groupBy(await Promise.all(outcomes), (outcome) => outcome)).toMatchObject({
      invalid_client: { length: 10 },
      "rate_limited 1": { length: 90 },
    });
  });

  test("strangers lock out no client that calls from elsewhere", async () => {
    const { ask } = world();
    for (let stranger = 2; stranger < 12; stranger++) {
      for (let i = 0; i < 25; i++) await ask("wrong", { address: `192.0.2.${stranger}` });
    }
    expect(await ask("right")).toBe("a b c");
  });

  test("a caller over the limit costs neither a hash nor a read of the store", async () => {
    const { ask, state } = world();
    for (let i = 0; i < 21; i++) await ask("wrong");
    const { asked, hashed } = state;
    for (let i = 0; i < 100; i++) expect(await ask("wrong", { clientId: `client-${i}` })).toBe("rate_limited 60");
    expect(state).toMatchObject({ asked, hashed });
  });

  test("concurrent attempts count the same, and wait for their turn", async () => {
    const { ask, state } = world();
    const { promise, resolve } = Promise.withResolvers<void>();
    state.hashing = promise;
    const outcomes = Array.from({ length: 40 }, () => ask("wrong"));
    await expect.poll(() => state.hashed).toBe(2);
    resolve();
    const counted = Object.groupBy(await Promise.all(outcomes), (outcome) => outcome);
    expect(counted.invalid_client).toHaveLength(20);
    expect(counted["rate_limited 60"]).toHaveLength(20);
    expect(state.hashed).toBe(20);
  });

  test("concurrent successful attempts are all accepted", async () => {
    const { ask } = world();
    const outcomes = await Promise.all(Array.from({ length: 30 }, () => ask("right")));
    expect(new Set(outcomes)).toEqual(new Set(["a b c"]));
  });

  test("an attempt that succeeds after its window leaves nothing to the next", async () => {
    const { ask, state } = world();
    const { promise, resolve } = Promise.withResolvers<void>();
    state.hashing = promise;
    const late = ask("right");
    await expect.poll(() => state.hashed).toBe(1);
    state.hashing = Promise.resolve();
    state.nowMs += 60_000;
    for (let i = 0; i < 20; i++) expect(await ask("wrong")).toBe("invalid_client");
    resolve();
    expect(await late).toBe("a b c");
    expect(await ask("wrong", { clientId: "another" })).toBe("rate_limited 60");
  });

  test("a clock that goes back locks out no client for longer than a window", async () => {
    const { ask, state } = world();
    for (let i = 0; i < 21; i++) await ask("wrong");
    const { asked } = state;
    state.nowMs -= 3_600_000;
    await ask("right");
    expect(state.asked).toBe(asked + 1);
  });
});
