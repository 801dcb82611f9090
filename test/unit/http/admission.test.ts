import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FairQueue, type Waiter } from "../../../src/base/fair-queue.ts";
import {
  Admission,
  type AdmissionLimits,
  type AdmissionTicket,
  defaultAdmissionLimits,
} from "../../../src/http/admission.ts";
import { Accounts } from "../../../src/http/admit.ts";
import { callerGone } from "../../../src/http/deadline.ts";

/** Admission on a machine whose turns and time pass when the test says so. */
function setup(limits: Partial<AdmissionLimits> = {}) {
  let nowMs = 0;
  let busyShare = 1;
  let turns: (() => void)[] = [];
  let sweep: (() => void) | undefined;
  const admission = new Admission(
    { ...defaultAdmissionLimits, minAtOnce: 8, maxAtOnce: 32, maxStartsPerTurn: 100, ...limits },
    {
      nowMs: () => nowMs,
      busyShare: () => busyShare,
      nextTurn: (callback) => void turns.push(callback),
      every: (_intervalMs, callback) => {
        sweep = callback;
        return () => {
          sweep = undefined;
        };
      },
    },
  );
  const started: string[] = [];
  const refused: string[] = [];
  /** Calls that have started. */
  const running: AdmissionTicket[] = [];
  const enter = (name: string, group = name, member = ""): AdmissionTicket => {
    const ticket = admission.ticket(
      { group, member },
      () => {
        started.push(name);
        running.push(ticket);
      },
      () => void refused.push(name),
    );
    ticket.enter();
    return ticket;
  };
  return {
    admission,
    started,
    refused,
    running,
    isSweeping: () => sweep !== undefined,
    enter,
    enterAll: (count: number, group: string): AdmissionTicket[] =>
      Array.from({ length: count }, (_, call) => enter(`${group}${call}`, group)),
    /** Calls of two groups, which so have work beside each other. */
    bothHadCalls() {
      for (const ticket of ["hot", "quiet"].map((name) => enter(name))) ticket.leave();
    },
    turn() {
      const due = turns;
      turns = [];
      for (const callback of due) callback();
    },
    pass(ms: number, share = busyShare) {
      nowMs += ms;
      busyShare = share;
      sweep?.();
    },
  };
}

test("turns rotate over groups, and within a group over its members", () => {
  const room = new FairQueue<Waiter & { readonly name: string }>();
  for (const [group, member, count] of [
    ["unknown", "x", 3],
    ["unknown", "y", 2],
    ["tenant", "", 2],
  ] as const)
    for (let call = 0; call < count; call++)
      room.add({ account: { group, member }, name: `${group} ${member}${call}` });
  expect([room.largestGroup(), room.sizeOf("unknown"), room.sizeOf("nobody")]).toEqual(["unknown", 5, 0]);
  const order = ["unknown x0", "tenant 0", "unknown y0", "tenant 1", "unknown x1", "unknown y1", "unknown x2"];
  expect(order.map(() => room.take(() => true)?.name)).toEqual(order);
  expect([room.size, room.take(() => true)]).toEqual([0, undefined]);
});

describe("for any order of events, a call", () => {
  const moves = ["enter", "park", "resume", "leave", "regroup", "turn", "wait"] as const;
  const orders = fc.array(fc.tuple(fc.nat({ max: 3 }), fc.constantFrom(...moves)), { maxLength: 40 });

  test("starts or is refused at most once, and frees its place and its turn once", async () => {
    await fc.assert(
      fc.asyncProperty(orders, async (order) => {
        const { admission, enter, enterAll, started, turn, pass } = setup({ minAtOnce: 2, maxWaiting: 2 });
        const outcomes = [0, 1, 2, 3].map(() => 0);
        const calls = outcomes.map((_, call) => {
          const settled = () => {
            outcomes[call] = (outcomes[call] ?? 0) + 1;
          };
          return admission.ticket({ group: `group ${call % 2}`, member: String(call) }, settled, settled);
        });
        const resumed: Promise<void>[] = [];
        const over = new Set<number>();
        for (const [call, move] of order) {
          const ticket = calls[call] as AdmissionTicket;
          if (move === "turn") turn();
          else if (move === "wait") pass(1_001);
          else if (move === "regroup") ticket.belongsTo("tenant");
          else if (move === "resume") {
            const resume = ticket.resume();
            resumed.push(resume.catch(() => {}));
            if (over.has(call)) await expect(resume).rejects.toBe(callerGone);
          } else ticket[move]();
          if (move === "leave") over.add(call);
          expect(admission.places).toBeLessThanOrEqual(calls.length - over.size);
        }
        for (const ticket of calls) ticket.leave();
        // None of those who wait for their turn is forgotten.
        await Promise.all(resumed);
        turn();
        expect([admission.places, admission.waiting]).toEqual([0, 0]);
        expect(outcomes.filter((count) => count > 1)).toEqual([]);
        pass(2_000);
        enterAll(2, "next");
        expect(started).toHaveLength(2);
        enter("last").leave();
      }),
      { numRuns: 2_000 },
    );
  });
});

test("one member has a part of its group's share, stalled calls included, and others the rest", () => {
  const { admission, enter, started, pass, turn } = setup({ minAtOnce: 8 });
  const come = (member: string) => enter(member, "unknown", member);
  for (let call = 0; call < 20; call++) come("x");
  pass(300);
  turn();
  expect(started).toEqual(["x", "x"]);
  const [first] = ["y", "z"].map((member) => come(member));
  turn();
  expect(started).toEqual(["x", "x", "y", "z"]);
  // Whose tenant is known counts for that, and for no member.
  first?.belongsTo("tenant");
  come("y");
  come("y");
  turn();
  expect(started.filter((member) => member === "y")).toHaveLength(3);
  expect(admission.places).toBe(6);
});

describe("strangers", () => {
  /** Calls with unknown credentials, each with its own. */
  function strangers(limits: Partial<AdmissionLimits> = {}) {
    const world = setup(limits);
    const accounts = new Accounts({ addressOf: ({ remoteAddress }) => remoteAddress, tenantHeader: "x-tenant" });
    let calls = 0;
    const enter = (remoteAddress: string) => {
      const authorization = `Bearer ${calls++}`;
      const inbound = { remoteAddress, method: "GET", url: "/", headerValues: () => [authorization] };
      const { group, member } = accounts.of(inbound);
      world.enter(remoteAddress, group, member);
    };
    /** Ends what is worked on, and starts what may begin then. */
    const round = () => {
      for (const ticket of world.running.splice(0)) ticket.leave();
      world.turn();
    };
    return { ...world, enter, round };
  }
  const [crowd, alone] = ["192.0.2.1", "198.51.100.1"];

  test("one address that fills the queue leaves room for another, and none for itself", () => {
    const { enter, round, started, refused } = strangers({ maxWaiting: 100 });
    for (let call = 0; call < 1_000; call++) enter(crowd);
    const refusals = refused.length;
    expect(refusals).toBeGreaterThan(800);
    for (let call = 0; call < 4; call++) enter(alone);
    expect(refused.slice(refusals)).toEqual(Array(4).fill(crowd));
    const before = started.length;
    round();
    round();
    expect(started.slice(before).filter((address) => address === alone)).toHaveLength(4);
  });

  test("addresses that share the queue evenly displace no calls of each other", () => {
    const { enter, refused } = strangers({ maxWaiting: 20 });
    for (let call = 0; call < 2; call++) enter(crowd);
    for (let call = 0; call < 10; call++) for (const address of [crowd, alone]) enter(address);
    expect(refused).toEqual([]);
    for (const address of [crowd, alone]) enter(address);
    expect(refused).toEqual([crowd, alone]);
  });
});

describe("calls", () => {
  test("start a bounded number per turn, and the next in order of arrival", () => {
    const { started, enterAll, turn } = setup({ maxStartsPerTurn: 3 });
    enterAll(8, "a");
    expect(started).toEqual(["a0", "a1", "a2"]);
    turn();
    expect(started).toEqual(["a0", "a1", "a2", "a3", "a4", "a5"]);
    turn();
    expect(started).toHaveLength(8);
  });

  test("of a group without running ones start at once, although another fills the limit, within a bound", () => {
    const { started, enterAll, enter, turn } = setup();
    enterAll(20, "hot");
    for (const name of ["b", "c", "d", "e", "f"]) enter(name);
    turn();
    expect(started.slice(8)).toEqual(["b", "c", "d", "e"]);
  });

  test("of one group get a part of the slots while others have work, and all a second later", () => {
    const { started, enterAll, bothHadCalls, turn, pass } = setup();
    bothHadCalls();
    started.length = 0;
    enterAll(8, "hot");
    turn();
    expect(started).toEqual(["hot0", "hot1"]);
    pass(1_000);
    turn();
    expect(started).toHaveLength(8);
  });

  test("of a group that has waited catch up, however many another one has started in the same turn", () => {
    const { started, enterAll, bothHadCalls, turn } = setup({ minAtOnce: 32, maxStartsPerTurn: 16 });
    bothHadCalls();
    turn();
    started.length = 0;
    enterAll(20, "hot");
    enterAll(6, "quiet");
    expect(started).toEqual(["hot0", "hot1", "hot2", "hot3", "quiet0", "quiet1", "quiet2", "quiet3"]);
    turn();
    expect(started.slice(8).sort()).toEqual(["hot4", "hot5", "hot6", "hot7", "quiet4", "quiet5"]);
  });

  test("that wait too long are refused, few per turn, and never instead of feasible ones", () => {
    const { started, refused, enterAll, pass, turn } = setup({ maxRefusalsPerTurn: 2, maxWaitMs: 1000 });
    const tickets = enterAll(14, "a");
    pass(1001);
    expect([started.length, refused.length]).toEqual([8, 0]);
    turn();
    expect(refused).toEqual(["a8", "a9"]);
    tickets[0]?.leave();
    turn();
    expect(started.at(-1)).toBe("a10");
    expect(refused).toEqual(["a8", "a9", "a11", "a12"]);
    turn();
    expect(refused).toHaveLength(5);
  });

  test("find room if another group has most of it, which loses some", () => {
    const { refused, admission, enterAll, enter } = setup({ maxWaiting: 4, minAtOnce: 1, maxAtOnce: 1 });
    enterAll(7, "hot");
    expect(refused).toEqual(["hot5", "hot6"]);
    enterAll(2, "cool");
    expect(refused).toEqual(["hot5", "hot6", "hot1"]);
    enter("other");
    expect(admission.waiting).toBe(4);
  });

  test("that leave while they wait are neither started nor refused", () => {
    const { started, refused, enterAll, enter, pass, turn, isSweeping } = setup();
    const tickets = enterAll(8, "a");
    const gone = enter("gone", "a");
    expect(isSweeping()).toBe(true);
    gone.leave();
    expect(isSweeping()).toBe(false);
    for (const fixture of tickets) fixture.leave();
    pass(5000);
    turn();
    expect(started).toHaveLength(8);
    expect(refused).toEqual([]);
  });

  test("that wait for something else delay their own group only", () => {
    const { started, enterAll, pass, turn } = setup({ stalledAfterMs: 250 });
    enterAll(10, "stuck");
    enterAll(10, "other");
    pass(251);
    turn();
    expect(started.filter((name) => name.startsWith("stuck"))).toHaveLength(8);
    expect(started.filter((name) => name.startsWith("other"))).toHaveLength(8);
  });

  test("free their place while their caller sends, and queue again", async () => {
    const { started, refused, enterAll, enter, pass, turn } = setup();
    const tickets = enterAll(8, "a");
    tickets[0]?.park();
    enter("next", "a");
    turn();
    expect(started.at(-1)).toBe("next");
    const resumed = tickets[0]?.resume();
    tickets[1]?.leave();
    turn();
    await resumed;
    tickets[2]?.park();
    enter("another", "a");
    const late = tickets[2]?.resume();
    pass(1001);
    turn();
    await expect(late).rejects.toMatchObject({ reason: "overloaded" });
    expect(refused).toEqual([]);
  });
});

describe("the concurrency limit", () => {
  test("rises while the event loop is idle and calls wait, and falls when it is busy", () => {
    const { started, enterAll, pass, turn } = setup();
    const tickets = enterAll(200, "a");
    for (let i = 0; i < 20; i++) {
      pass(1, 0.5);
      turn();
    }
    expect(started).toHaveLength(32);
    for (let i = 0; i < 20; i++) pass(1, 1);
    for (const fixture of tickets.slice(0, 30)) fixture.leave();
    turn();
    expect(started).toHaveLength(38);
  });

  test("once risen gives one group no more than before while others have work", () => {
    const { started, enter, enterAll, pass, turn } = setup();
    const tickets = enterAll(200, "hot");
    for (let i = 0; i < 20; i++) {
      pass(1, 0.5);
      turn();
    }
    expect(started).toHaveLength(32);
    const quiet = enter("quiet");
    turn();
    quiet.leave();
    for (const fixture of tickets.slice(0, 32)) fixture.leave();
    enter("quiet").leave();
    started.length = 0;
    turn();
    expect(started).toEqual(["hot32", "hot33"]);
  });
});
