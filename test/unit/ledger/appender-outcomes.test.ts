/** Writes whose batches end apart from each other. */
import { expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import { Appender } from "../../../src/ledger/append/appender.ts";
import {
  type BatchFailure,
  type BatchOutcome,
  type BatchResult,
  type TenantBatch,
  UnsoundLogError,
  UnstorableError,
} from "../../../src/ledger/ports/store.ts";
import { signingKeyOf } from "../../../src/ledger/tlog/note-keys.ts";
import { LogSigner } from "../../../src/ledger/tlog/signer.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../../contract/ledger-records.ts";

const makeRecord = recordMaker(manualClock(), seededRandom());
const signer = new LogSigner([signingKeyOf(new Uint8Array(32))]);
const bytes = { leafHash: "aGFzaA==", path: "", leaf: "bGVhZg==", opening: "b3Blbg==", record: "cmVj" };

function resultOf({ tenantId, records }: TenantBatch): BatchResult {
  const tree = { size: records.length, root: new Uint8Array(32) };
  const results = records.map(({ recordId }, leafIndex) => {
    return { ...bytes, recordId, leafIndex, recordedAt: "2026-01-02T03:04:05.006Z", tree };
  });
  return { log: `o/${tenantId}`, results };
}

/** Appends a record of each tenant in one write, whose batches end as `outcome` says. */
function appendAll(outcome: (batch: TenantBatch) => BatchOutcome) {
  const writes: string[][] = [];
  const write = async (batches: readonly TenantBatch[]) => {
    writes.push(batches.map(({ tenantId, records }) => `${tenantId} ${records.length}`));
    return batches.map(outcome);
  };
  const appender = new Appender({ write }, signer);
  const names = ["alice", "bob", "alice"];
  const results = Promise.allSettled(names.map((name) => appender.append(makeRecord(tenant(name)))));
  return { writes, results };
}

test("a batch that failed refuses those who wait for it, and no other call", async () => {
  const down = new ServiceError("store_unavailable", "down");
  const { writes, results } = appendAll((batch) => (batch.tenantId === "alice" ? { error: down } : resultOf(batch)));
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

test("a batch that fails because of its data is halved, alone", async () => {
  const { writes, results } = appendAll((batch) =>
    batch.records.length > 1 ? { error: new UnstorableError("bad") } : resultOf(batch),
  );
  expect(await results).toMatchObject(Array(3).fill({ status: "fulfilled" }));
  expect(writes).toEqual([["alice 2", "bob 1"], ["alice 1"], ["alice 1"]]);
});

test("a log that is not sound refuses its own tenant", async () => {
  const { results } = appendAll((batch) =>
    batch.tenantId === "bob" ? { error: new UnsoundLogError("older") } : resultOf(batch),
  );
  expect(await results).toMatchObject([
    { status: "fulfilled" },
    { status: "rejected", reason: { reason: "store_unavailable" } },
    { status: "fulfilled" },
  ]);
});

test("a batch that the store writes later is answered by its own outcome", async () => {
  const { writes, results } = appendAll((batch) =>
    batch.tenantId === "alice" ? { later: Promise.resolve(resultOf(batch)) } : resultOf(batch),
  );
  expect(await results).toMatchObject([
    { status: "fulfilled", value: { leafIndex: 0 } },
    { status: "fulfilled", value: { log: "o/bob" } },
    { status: "fulfilled", value: { leafIndex: 1 } },
  ]);
  expect(writes).toEqual([["alice 2", "bob 1"]]);
});

test("a batch that failed later refuses its own callers, and what waits behind it is written", async () => {
  const down = new ServiceError("store_unavailable", "down");
  const later = Promise.withResolvers<BatchFailure>();
  const outcomes: BatchOutcome[] = [{ later: later.promise }, { error: new UnstorableError("bad") }];
  const appender = new Appender({ write: async () => outcomes.splice(0, 1) }, signer);
  const first = appender.append(makeRecord(tenant("alice")));
  await new Promise(setImmediate);
  const results = Promise.allSettled([first, appender.append(makeRecord(tenant("alice")))]);
  later.resolve({ error: down });
  expect(await results).toMatchObject([{ reason: down }, { reason: { reason: "internal" } }]);
});

test("a batch that is written later delays no other tenant, and closing waits for it", async () => {
  const released = Promise.withResolvers<void>();
  const write = async (batches: readonly TenantBatch[]): Promise<BatchOutcome[]> =>
    batches.map((batch) =>
      batch.tenantId === "alice" ? { later: released.promise.then(() => resultOf(batch)) } : resultOf(batch),
    );
  const appender = new Appender({ write }, signer);
  const held = appender.append(makeRecord(tenant("alice")));
  for (let turn = 0; turn < 4; turn++) await appender.append(makeRecord(tenant("bob")));
  const order: string[] = [];
  const [later, closed] = [appender.append(makeRecord(tenant("alice"))), appender.close()];
  void held.then(() => order.push("held"));
  void later.then(() => order.push("later"));
  released.resolve();
  await closed;
  await later;
  expect(order).toEqual(["held", "later"]);
});

test("halves of a tenant's batch are written in order, even if the store writes them later", async () => {
  const order: string[] = [];
  const { results } = appendAll((batch) => {
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
