import { describe, expect, test } from "vitest";
import { admissionFor, connectionsOf, workersOf } from "../../../src/app/workers/parts.ts";
import { Peer, type PeerMessage } from "../../../src/app/workers/peer.ts";
import type { MainCalls, WorkerCalls } from "../../../src/app/workers/protocol.ts";
import { borrowedSlots, LentSlots } from "../../../src/app/workers/slots.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { createFairSemaphore } from "../../../src/base/semaphore.ts";
import { defaultAdmissionLimits } from "../../../src/transport/admission/admission.ts";

describe("parts of what a service may use", () => {
  test("connections to PostgreSQL are as many as are set, and everybody has one", () => {
    for (let workers = 2; workers <= 64; workers++)
      for (let storePoolSize = workers + 1; storePoolSize <= 100; storePoolSize++) {
        const { main, ofWorkers } = connectionsOf({ storePoolSize }, workers);
        expect(ofWorkers).toHaveLength(workers);
        expect(Math.min(main, ...ofWorkers)).toBeGreaterThanOrEqual(1);
        expect(ofWorkers.reduce((sum, part) => sum + part, main)).toBe(storePoolSize);
        expect(Math.max(...ofWorkers) - Math.min(...ofWorkers)).toBeLessThanOrEqual(1);
      }
  });

  test("calls that are admitted are divided, those begun in one turn are not", () => {
    const { minAtOnce, maxAtOnce, maxWaiting, ...others } = admissionFor(4);
    expect({ minAtOnce, maxAtOnce, maxWaiting }).toEqual({ minAtOnce: 16, maxAtOnce: 512, maxWaiting: 2048 });
    expect(defaultAdmissionLimits).toMatchObject(others);
  });

  test.each([
    ["as many as are set", { workers: 3, store: "sqlite", storePoolSize: 1 }, 8, 3],
    ["auto: one a core", { workers: "auto", store: "sqlite", storePoolSize: 1 }, 8, 8],
    ["auto: no more than have a connection", { workers: "auto", store: "postgres", storePoolSize: 5 }, 8, 4],
    ["auto: at least one", { workers: "auto", store: "postgres", storePoolSize: 1 }, 8, 1],
    ["auto: at most 64", { workers: "auto", store: "sqlite", storePoolSize: 1 }, 96, 64],
  ] as const)("workers are %s", (_name, { workers, store, storePoolSize }, cores, expected) => {
    const location = { kind: store } as Parameters<typeof workersOf>[0]["store"];
    expect(workersOf({ workers, store: location, storePoolSize }, cores)).toBe(expected);
  });
});

interface Greeting {
  greet(name: string): Promise<string>;
  note(name: string): void;
}

/** Two sides whose messages are delivered at once, as copies. */
function pair<Left extends object, Right extends object>(left: Left, right: Right) {
  const sides: { left?: Peer<never, never>; right?: Peer<never, never> } = {};
  const asLeft = new Peer<never, never>(
    (message: PeerMessage) => sides.right?.receive(structuredClone(message)),
    left as never,
  );
  const asRight = new Peer<never, never>(
    (message: PeerMessage) => sides.left?.receive(structuredClone(message)),
    right as never,
  );
  sides.left = asLeft;
  sides.right = asRight;
  return { left: asLeft as unknown, right: asRight as unknown };
}

describe("two threads that call each other", () => {
  const noted: string[] = [];
  const greeting: Greeting = {
    async greet(name) {
      if (name === "nobody") throw new ServiceError("overloaded", "too many greetings", { retryAfterSeconds: 3 });
      if (name === "") throw new TypeError("a name is needed");
      return `hello ${name}`;
    },
    note: (name) => void noted.push(name),
  };
  const open = () => pair({}, greeting).left as Peer<Greeting, Record<never, never>>;

  test("get results and refusals of the other side", async () => {
    const other = open();
    expect(await Promise.all(["a", "b"].map((name) => other.ask("greet", name)))).toEqual(["hello a", "hello b"]);
    await expect(other.ask("greet", "nobody")).rejects.toMatchObject({
      ...{ name: "ServiceError", reason: "overloaded", message: "too many greetings" },
      details: { retryAfterSeconds: 3 },
    });
    await expect(other.ask("greet", "")).rejects.toThrow("a name is needed");
    other.tell("note", "a");
    expect(noted).toEqual(["a"]);
  });

  test("are not left waiting when the other one ends", async () => {
    const silent = new Peer<Greeting, Record<never, never>>(() => {}, {});
    const asked = silent.ask("greet", "a");
    silent.end(new Error("it ended"));
    await expect(asked).rejects.toThrow("it ended");
    await expect(silent.ask("greet", "a")).rejects.toThrow("it ended");
  });
});

describe("slots that workers share", () => {
  const limits = { maximum: 2, maximumWaitingEach: 2, maximumWaiting: 4 };

  function fleet() {
    const slots = createFairSemaphore(limits);
    return [0, 1].map(() => {
      const lent = new LentSlots(slots);
      const main = {
        takeSlot: (party: string, slot: number) => lent.take(party, slot),
        leaveSlot: (slot: number) => lent.leave(slot),
      };
      const borrowed = borrowedSlots(pair({}, main).left as Peer<MainCalls, WorkerCalls>);
      return { lent, borrowed };
    });
  }
  const never = new AbortController().signal;
  const turns = () => new Promise((resolve) => setImmediate(resolve));

  test("are no more than there are, over all workers, and go to who waits", async () => {
    const workers = fleet();
    let atWork = 0;
    let most = 0;
    const work = async () => {
      atWork += 1;
      most = Math.max(most, atWork);
      await turns();
      atWork -= 1;
    };
    const asked = Array.from({ length: 6 }, (_, i) => workers[i % 2]?.borrowed.run(`party-${i % 3}`, work, never));
    await Promise.all(asked);
    expect(most).toBe(2);
  });

  test("are refused as the semaphore refuses, given up with the wait, and free when a worker is no more", async () => {
    const [first, second] = fleet();
    const block = Promise.withResolvers<void>();
    const blocked = [1, 2].map(() => first?.borrowed.run("a", () => block.promise, never));
    await turns();
    const left = new AbortController();
    const waiting = [1, 2].map(() => second?.borrowed.run("b", async () => "done", left.signal));
    await turns();
    await expect(second?.borrowed.run("b", async () => {}, never)).rejects.toMatchObject({ reason: "rate_limited" });
    left.abort(new Error("gone"));
    for (const each of waiting) await expect(each).rejects.toThrow("gone");
    const next = second?.borrowed.run("b", async () => "done", never);
    first?.lent.leaveAll();
    expect(await next).toBe("done");
    block.resolve();
    await Promise.all(blocked);
  });
});
