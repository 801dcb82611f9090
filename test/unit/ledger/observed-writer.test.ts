import { expect, test } from "vitest";
import { observedWriter } from "../../../src/ledger/append/observed.ts";
import type { BatchFailure, BatchResult, CommittedRecord } from "../../../src/ledger/ports/store.ts";
import { tenant } from "../../contract/ledger-records.ts";

const fresh = { leafIndex: 1 } as CommittedRecord;
const retried: CommittedRecord = { ...fresh, earlierAnswer: "{}" };
const resultOf = (...results: BatchResult["results"]): BatchResult => ({ log: "o/a", results });
const failed: BatchFailure = { error: new Error("down") };
const batches = [{ tenantId: tenant("alice"), records: ["{}"] }];

/** A writer whose writes take 7 ms and end so, watched. */
function watched(end: () => readonly (BatchResult | BatchFailure)[]) {
  const told: (readonly [records: number, durationMs: number])[] = [];
  let nowMs = 1_000;
  const writer = observedWriter(
    {
      async write(given) {
        expect(given).toBe(batches);
        nowMs += 7;
        return end();
      },
    },
    { elapsedMs: () => nowMs, committed: (...commit) => void told.push(commit) },
  );
  return { writer, told };
}

test.each<[string, readonly (BatchResult | BatchFailure)[], number]>([
  ["records of every batch", [resultOf(fresh, fresh), resultOf(fresh)], 3],
  ["no retries, no conflicts", [resultOf(fresh, retried, "conflict", "erased")], 1],
  ["no batch that failed beside others", [failed, resultOf(fresh, fresh)], 2],
])("a commit counts %s", async (_name, outcomes, records) => {
  const { writer, told } = watched(() => outcomes);
  expect(await writer.write(batches, "none")).toBe(outcomes);
  expect(told).toEqual([[records, 7]]);
});

test.each<[string, readonly (BatchResult | BatchFailure)[]]>([
  ["only retries", [resultOf(retried), resultOf("conflict")]],
  ["only failed batches", [failed]],
])("a write of %s is no commit", async (_name, outcomes) => {
  const { writer, told } = watched(() => outcomes);
  expect(await writer.write(batches, "none")).toBe(outcomes);
  expect(told).toEqual([]);
});

test("a write that the store refused is no commit, and is refused as it was", async () => {
  const down = new Error("down");
  const { writer, told } = watched(() => {
    throw down;
  });
  await expect(writer.write(batches, "none")).rejects.toBe(down);
  expect(told).toEqual([]);
});
