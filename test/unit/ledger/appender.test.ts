import { afterEach, describe, expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import type { TenantId } from "../../../src/base/ids.ts";
import { Appender } from "../../../src/ledger/append/appender.ts";
import { GroupRooms } from "../../../src/ledger/append/group.ts";
import { type AppenderLimits, defaultAppenderLimits } from "../../../src/ledger/append/limits.ts";
import type { NewRecord } from "../../../src/ledger/ports/record.ts";
import {
  type BatchFailure,
  type BatchOutcome,
  type BatchResult,
  type BatchWriter,
  type TenantBatch,
  UnstorableError,
} from "../../../src/ledger/ports/store.ts";
import { signingKeyOf } from "../../../src/ledger/tlog/note-keys.ts";
import { LogSigner } from "../../../src/ledger/tlog/signer.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../../contract/ledger-records.ts";
import { manualTime } from "../auth/world.ts";

const makeRecord = recordMaker(manualClock(), seededRandom());
const alice = tenant("alice");
const bob = tenant("bob");

const committed = {
  recordedAt: "2026-01-02T03:04:05.006Z",
  leafHash: "aGFzaA==",
  path: "",
  leaf: "bGVhZg==",
  opening: "b3BlbmluZw==",
  record: "cmVjb3Jk",
};
const signer = new LogSigner([signingKeyOf(new Uint8Array(32))]);

/** What a store answers for one batch after the other. */
function resultsOf(): (batch: TenantBatch) => BatchResult {
  const sizes = new Map<string, number>();
  return ({ tenantId, records }) => {
    const firstLeafIndex = sizes.get(tenantId) ?? 0;
    const size = firstLeafIndex + records.length;
    sizes.set(tenantId, size);
    const tree = { size, root: new Uint8Array(32) };
    const results = records.map(({ recordId }, position) => {
      return { ...committed, recordId, tree, leafIndex: firstLeafIndex + position };
    });
    return { log: `o/${tenantId}`, results };
  };
}

interface HeldWrite extends PromiseWithResolvers<readonly BatchOutcome[]> {
  readonly batches: readonly TenantBatch[];
}

/** A writer whose writes end when the test says so. */
class HeldWriter implements BatchWriter {
  readonly writes: HeldWrite[] = [];
  #began: PromiseWithResolvers<void> = Promise.withResolvers();
  readonly #resultOf = resultsOf();

  write(batches: readonly TenantBatch[]): Promise<readonly BatchOutcome[]> {
    const held = { ...Promise.withResolvers<readonly BatchOutcome[]>(), batches };
    this.writes.push(held);
    this.#began.resolve();
    this.#began = Promise.withResolvers();
    return held.promise;
  }

  /** The nth write, from 0, once it began. */
  async began(index: number): Promise<HeldWrite> {
    for (;;) {
      const write = this.writes[index];
      if (write !== undefined) return write;
      await this.#began.promise;
    }
  }

  /** Ends the nth write as a store would. */
  async finish(index: number): Promise<void> {
    const { batches, resolve } = await this.began(index);
    resolve(batches.map((batch) => this.#resultOf(batch)));
  }
}

let stop = () => {};
afterEach(() => stop());

function setup(limits: Partial<AppenderLimits> = {}) {
  const writer = new HeldWriter();
  return { writer, appender: new Appender(writer, signer, { limits: { ...defaultAppenderLimits, ...limits } }) };
}

/** Ends every write as soon as it begins. */
function finishAll(writer: HeldWriter): void {
  let running = true;
  stop = () => {
    running = false;
  };
  void (async () => {
    for (let index = 0; running; index++) await writer.finish(index);
  })();
}

const counts = (batches: readonly TenantBatch[]) => batches.map(({ tenantId, records }) => [tenantId, records.length]);

test("concurrent calls share a write; calls during it share the next", async () => {
  const { writer, appender } = setup();
  const first = [appender.append(makeRecord(alice)), appender.append(makeRecord(bob))];
  expect(counts((await writer.began(0)).batches)).toEqual([
    ["alice", 1],
    ["bob", 1],
  ]);
  const second = [appender.append(makeRecord(alice)), appender.append(makeRecord(alice))];
  await writer.finish(0);
  await Promise.all(first);
  expect(counts((await writer.began(1)).batches)).toEqual([["alice", 2]]);
  await writer.finish(1);
  expect((await Promise.all(second)).map(({ leafIndex }) => leafIndex)).toEqual([1, 2]);
  expect(writer.writes).toHaveLength(2);
});

test("the next write begins while tenants of the last one are answered", async () => {
  const { writer, appender } = setup({ tenantsAnsweredAtOnce: 1 });
  const order: string[] = [];
  const names = ["alice", "bob", "carol"];
  const all = names.map(async (name) => {
    await appender.append(makeRecord(tenant(name)));
    order.push(name);
  });
  await writer.finish(0);
  await all[0];
  const next = appender.append(makeRecord(alice));
  await writer.began(1);
  order.push("next write");
  await writer.finish(1);
  await Promise.all([...all, next]);
  expect(order).toEqual(["alice", "bob", "next write", "carol"]);
});

test("a write is delayed while every turn of the event loop brings calls, up to a bound", async () => {
  const appendInTurns = async (gatherTurns: number) => {
    const { writer, appender } = setup({ gatherTurns });
    const appended = [appender.append(makeRecord(alice))];
    // Each of the first four turns brings a record; the next is quiet.
    for (let turn = 0; turn < 4; turn++) {
      await new Promise((resolve) => process.nextTick(resolve));
      if (writer.writes.length > 0) break;
      appended.push(appender.append(makeRecord(alice)));
      await new Promise(setImmediate);
    }
    const { batches } = await writer.began(0);
    finishAll(writer);
    await Promise.all(appended);
    stop();
    return counts(batches)[0]?.[1];
  };
  expect(await appendInTurns(0)).toBe(2);
  expect(await appendInTurns(2)).toBe(4);
  expect(await appendInTurns(16)).toBe(5);
});

test("a lone record is written at once", async () => {
  const { writer, appender } = setup({ gatherTurns: 16 });
  const appended = appender.append(makeRecord(alice));
  await new Promise(setImmediate);
  expect(writer.writes).toHaveLength(1);
  await writer.finish(0);
  await appended;
});

test("a tenant with a long queue gets the room that others leave", async () => {
  const { writer, appender } = setup({ maxRecordsPerWrite: 6 });
  const all = [...Array(20).fill(alice), bob, tenant("carol"), tenant("carol")].map((id) =>
    appender.append(makeRecord(id)),
  );
  expect(counts((await writer.began(0)).batches)).toEqual([
    ["alice", 3],
    ["bob", 1],
    ["carol", 2],
  ]);
  finishAll(writer);
  await Promise.all(all);
  expect(counts((await writer.began(1)).batches)).toEqual([["alice", 6]]);
});

test("tenants that did not fit are first in the next write", async () => {
  const { writer, appender } = setup({ maxRecordsPerWrite: 2 });
  const names = ["a", "a", "b", "b", "c", "d"];
  const all = names.map((name) => appender.append(makeRecord(tenant(name))));
  finishAll(writer);
  await Promise.all(all);
  expect(writer.writes.map(({ batches }) => batches.map(({ tenantId }) => tenantId))).toEqual([
    ["a", "b"],
    ["c", "d"],
    ["a", "b"],
  ]);
});

test("concurrent writes never share a tenant", async () => {
  const { writer, appender } = setup({ maxWritesInFlight: 2 });
  const all = [appender.append(makeRecord(alice))];
  await writer.began(0);
  all.push(appender.append(makeRecord(alice)), appender.append(makeRecord(bob)));
  await writer.began(1);
  await new Promise(setImmediate);
  expect(writer.writes.map(({ batches }) => counts(batches))).toEqual([[["alice", 1]], [["bob", 1]]]);
  finishAll(writer);
  await Promise.all(all);
  expect(counts((await writer.began(2)).batches)).toEqual([["alice", 1]]);
});

test("a write is bounded in bytes, and carries one record of any size", async () => {
  const { writer, appender } = setup({ maxBytesPerWrite: 3_000 });
  const sized = (length: number) => makeRecord(alice, { request: { purpose: "é".repeat(length / 2) } });
  const all = [sized(10_000), sized(1_000), sized(1_000), sized(1_000)].map((record) => appender.append(record));
  finishAll(writer);
  await Promise.all(all);
  expect(writer.writes.map(({ batches }) => counts(batches))).toEqual([[["alice", 1]], [["alice", 2]], [["alice", 1]]]);
});

test("a tenant that fills the queues is refused, and others are not", async () => {
  const { appender } = setup({ maxQueuedBytes: 100_000 });
  const large: Partial<NewRecord> = { request: { purpose: "x".repeat(4_000) } };
  const results = [alice, bob].map((id) =>
    Array.from({ length: 25 }, async () => {
      const outcome = appender.append(makeRecord(id, large)).catch(({ reason }) => reason);
      return Promise.race([outcome, new Promise(setImmediate).then(() => "queued")]);
    }),
  );
  const [ofAlice = [], ofBob = []] = await Promise.all(results.map((outcomes) => Promise.all(outcomes)));
  const queued = (outcomes: readonly unknown[]) => outcomes.filter((outcome) => outcome === "queued").length;
  // A half of the bytes, and then a half of the rest: a record is a little larger than its purpose.
  expect([queued(ofAlice), queued(ofBob)]).toEqual([12, 6]);
  expect(new Set(ofAlice)).toEqual(new Set(["queued", "overloaded"]));
});

test("if the store fails, all waiting calls are refused with its cause, and the next call is tried", async () => {
  const { writer, appender } = setup({ maxRecordsPerWrite: 1 });
  const results = Promise.allSettled([alice, alice, bob].map((id) => appender.append(makeRecord(id))));
  const cause = new Error("disk on fire");
  (await writer.began(0)).reject(cause);
  for (const result of await results) {
    expect(result).toMatchObject({
      reason: {
        reason: "store_unavailable",
        details: { retryAfterSeconds: 1, cause },
        message: expect.not.stringMatching("fire"),
      },
    });
  }
  expect(writer.writes).toHaveLength(1);
  const next = appender.append(makeRecord(alice));
  await writer.finish(1);
  expect(await next).toMatchObject({ leafIndex: 0 });
});

describe("the time limit of a record", () => {
  function limited(limits: Partial<AppenderLimits> = {}) {
    const time = manualTime();
    const writer = new HeldWriter();
    const all = { ...defaultAppenderLimits, maxWaitMs: 5_000, ...limits };
    return { writer, appender: new Appender(writer, signer, { limits: all, timers: time }), time };
  }
  const late = { reason: "store_unavailable", message: "The record store did not do it in time." };

  test("includes the wait for earlier writes, and an expired record is not written", async () => {
    const { writer, appender, time } = limited();
    const first = appender.append(makeRecord(alice));
    await writer.began(0);
    const behind = [appender.append(makeRecord(alice)), appender.append(makeRecord(alice))];
    const ended = Promise.allSettled([first, ...behind]);
    expect(appender.waiting).toBe(2);
    time.advance(5_000);
    for (const result of await ended) expect(result).toMatchObject({ status: "rejected", reason: late });
    expect(appender.waiting).toBe(0);
    await writer.finish(0);
    await appender.close();
    expect(writer.writes).toHaveLength(1);
  });

  test("includes a later write by the store, which learns the remaining time", async () => {
    const { writer, appender, time } = limited();
    const startedMs = performance.now();
    const appended = appender.append(makeRecord(alice));
    appended.catch(() => {});
    const { resolve, batches } = await writer.began(0);
    expect(batches[0]?.endsAtMs).toBeGreaterThanOrEqual(startedMs + 5_000);
    const later = Promise.withResolvers<{ error: unknown }>();
    resolve([{ later: later.promise }]);
    time.advance(5_000);
    await expect(appended).rejects.toMatchObject(late);
    later.resolve({ error: new Error("late") });
    await appender.close();
    expect(writer.writes).toHaveLength(1);
  });

  test("is cancelled for a record or group that finds no room in the queue", async () => {
    const { writer, appender, time } = limited({ maxQueuedPerTenant: 2 });
    const first = appender.append(makeRecord(alice));
    await writer.began(0);
    const behind = [appender.append(makeRecord(alice)), appender.append(makeRecord(alice))];
    const armed = time.pending();
    const group = [makeRecord(alice), makeRecord(alice)].map((record) => appender.encode(record));
    expect(() => appender.appendTogether(alice, group)).toThrow(expect.objectContaining({ reason: "overloaded" }));
    await expect(appender.append(makeRecord(alice))).rejects.toMatchObject({ reason: "overloaded" });
    expect(time.pending()).toBe(armed);
    const ended = Promise.allSettled([first, ...behind]);
    time.advance(5_000);
    await ended;
    await writer.finish(0);
    await appender.close();
  });

  test("is cancelled for a written record", async () => {
    const { writer, appender, time } = limited();
    const appended = [appender.append(makeRecord(alice)), appender.append(makeRecord(alice))];
    await writer.finish(0);
    await Promise.all(appended);
    expect(time.pending()).toBe(0);
  });
});

describe("room for groups of a tenant", () => {
  function rooms() {
    const time = manualTime();
    const kept = new GroupRooms(10, time);
    const places: { records: number }[] = [];
    const enter = (tenantId: TenantId, count = 10) => {
      const place = { records: 0 };
      places.push(place);
      return kept.enter(tenantId, place, count);
    };
    const leave = (tenantId: TenantId, at: number) => kept.leave(tenantId, places[at] as { records: number });
    return { enter, leave, time, entered: () => places.map(({ records }) => records) };
  }

  test("admits one more while it is not full; others wait in order", async () => {
    const { enter, leave, time, entered } = rooms();
    expect([enter(alice, 4), enter(alice), enter(bob)]).toEqual([undefined, undefined, undefined]);
    const order: string[] = [];
    const [second, third] = [enter(alice, 10), enter(alice, 1)];
    void second?.then(() => order.push("second"));
    void third?.then(() => order.push("third"));
    leave(alice, 1);
    await second;
    expect(order).toEqual(["second"]);
    leave(alice, 0);
    expect(entered()).toEqual([0, 0, 10, 10, 0]);
    leave(alice, 3);
    await third;
    expect(order).toEqual(["second", "third"]);
    expect(time.pending()).toBe(0);
    leave(bob, 2);
    leave(alice, 4);
    expect(enter(alice)).toBeUndefined();
  });

  test("is refused after too long a wait, which then takes none", async () => {
    const { enter, leave, time, entered } = rooms();
    expect(enter(alice)).toBeUndefined();
    const refused = expect(enter(alice)).rejects.toMatchObject({ reason: "overloaded" });
    time.advance(1_000);
    await refused;
    leave(alice, 1);
    leave(alice, 0);
    expect(entered()).toEqual([0, 0]);
    expect(enter(alice)).toBeUndefined();
  });
});

describe("writes whose batches end apart from each other", () => {
  /** Appends a record of each tenant in one write, whose batches end as `outcome` says. */
  function appendAll(outcome: (batch: TenantBatch, resultOf: (batch: TenantBatch) => BatchResult) => BatchOutcome) {
    const writes: string[][] = [];
    const resultOf = resultsOf();
    const write = async (batches: readonly TenantBatch[]) => {
      writes.push(batches.map(({ tenantId, records }) => `${tenantId} ${records.length}`));
      return batches.map((batch) => outcome(batch, resultOf));
    };
    const appender = new Appender({ write }, signer, { limits: defaultAppenderLimits });
    const names = ["alice", "bob", "alice"];
    const results = Promise.allSettled(names.map((name) => appender.append(makeRecord(tenant(name)))));
    return { writes, results };
  }

  test("a batch that failed refuses those who wait for it, and no other call", async () => {
    const down = new ServiceError("store_unavailable", "down");
    const { writes, results } = appendAll((batch, resultOf) =>
      batch.tenantId === "alice" ? { error: down } : resultOf(batch),
    );
    expect(await results).toMatchObject([
      { status: "rejected", reason: down },
      { status: "fulfilled", value: { log: "o/bob" } },
      { status: "rejected", reason: down },
    ]);
    expect(writes).toEqual([["alice 2", "bob 1"]]);
  });

  test("what is no refusal of the service's own is one of the store", async () => {
    const { results } = appendAll(() => ({ error: new Error("driver") }));
    expect(await results).toMatchObject(Array(3).fill({ status: "rejected", reason: { reason: "store_unavailable" } }));
  });

  test("a batch that failed later refuses its own callers, and what waits behind it is written", async () => {
    const down = new ServiceError("store_unavailable", "down");
    const later = Promise.withResolvers<BatchFailure>();
    const outcomes: BatchOutcome[] = [{ later: later.promise }, { error: new UnstorableError("bad") }];
    const appender = new Appender({ write: async () => outcomes.splice(0, 1) }, signer, {
      limits: defaultAppenderLimits,
    });
    const first = appender.append(makeRecord(alice));
    await new Promise(setImmediate);
    const results = Promise.allSettled([first, appender.append(makeRecord(alice))]);
    later.resolve({ error: down });
    expect(await results).toMatchObject([{ reason: down }, { reason: { reason: "internal" } }]);
  });

  test("a batch that is written later delays no other tenant, and closing waits for it", async () => {
    const resultOf = resultsOf();
    const released = Promise.withResolvers<void>();
    const write = async (batches: readonly TenantBatch[]): Promise<BatchOutcome[]> =>
      batches.map((batch) =>
        batch.tenantId === "alice" ? { later: released.promise.then(() => resultOf(batch)) } : resultOf(batch),
      );
    const appender = new Appender({ write }, signer, { limits: defaultAppenderLimits });
    const held = appender.append(makeRecord(alice));
    for (let turn = 0; turn < 4; turn++) await appender.append(makeRecord(bob));
    const order: string[] = [];
    const [later, closed] = [appender.append(makeRecord(alice)), appender.close()];
    void held.then(() => order.push("held"));
    void later.then(() => order.push("later"));
    released.resolve();
    await closed;
    await later;
    expect(order).toEqual(["held", "later"]);
  });

  test("halves of a tenant's batch are written in order, even if the store writes them later", async () => {
    const order: string[] = [];
    const { results } = appendAll((batch, resultOf) => {
      if (batch.records.length > 1) return { error: new UnstorableError("bad") };
      const written = new Promise(setImmediate).then(() => {
        order.push(...batch.records.map(({ recordId }) => recordId));
        return resultOf(batch);
      });
      return { later: written };
    });
    const [first, , third] = (await results).map((result) => result.status === "fulfilled" && result.value.recordId);
    expect(order.filter((id) => id === first || id === third)).toEqual([first, third]);
  });
});
