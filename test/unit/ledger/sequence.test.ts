import { expect, test } from "vitest";
import { encodeRecord as written } from "../../../src/ledger/append/record-text.ts";
import { seedBytes, sequence } from "../../../src/ledger/append/sequence.ts";
import { leafBytes, parseLeaf } from "../../../src/ledger/record/leaf.ts";
import { maxLeafBytes } from "../../../src/ledger/tlog/tiles.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../../contract/ledger-records.ts";

const clock = manualClock();
const makeRecord = recordMaker(clock, seededRandom());
const alice = tenant("alice");
const seed = (count: number) => seededRandom("seed")(new Uint8Array(seedBytes(count)));

test("every entry has its own opening", () => {
  const records = [written(makeRecord(alice)), written(makeRecord(alice)), written(makeRecord(alice))] as const;
  const { entries } = sequence(undefined, records, clock.now(), seed(3), "o");
  expect(new Set(entries.map(({ opening }) => Buffer.from(opening).toString("hex"))).size).toBe(4);
});

test("a seed of the wrong size is refused instead of sharing openings", () => {
  expect(() => sequence(undefined, [written(makeRecord(alice))], 0, seed(2), "o")).toThrow("seed");
});

test("a leaf has at most 65,535 bytes", () => {
  const leaf = (length: number) => ({
    kind: "decision" as const,
    record_id: makeRecord(alice).recordId,
    recorded_at: "2026-01-02T03:04:05.006Z",
    policy_revision: "r".repeat(length),
    commitment: "c",
  });
  const overhead = leafBytes(leaf(0)).length;
  expect(leafBytes(leaf(maxLeafBytes - overhead)).length).toBe(maxLeafBytes);
  expect(() => leafBytes(leaf(maxLeafBytes - overhead + 1))).toThrow("65536");
});

test("a leaf of another version is not read", () => {
  expect(() => parseLeaf(Buffer.from('{"v":2}'))).toThrow("unknown version");
});
