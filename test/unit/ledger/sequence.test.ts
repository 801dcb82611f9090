import { expect, test } from "vitest";
import { encodeRecord as written } from "../../../src/ledger/append/record-text.ts";
import { seedBytes, sequence } from "../../../src/ledger/append/sequence.ts";
import { parseLeaf } from "../../../src/ledger/record/leaf.ts";
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

test("a leaf of another version is not read", () => {
  expect(() => parseLeaf(Buffer.from('{"v":2}'))).toThrow("unknown version");
});
