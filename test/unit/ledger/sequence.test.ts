import { expect, test } from "vitest";
import { encodeRecord as written } from "../../../src/ledger/append/record-text.ts";
import { type SealedEntry, seedBytes, sequence } from "../../../src/ledger/append/sequence.ts";
import { leafBytes, parseLeaf } from "../../../src/ledger/record/leaf.ts";
import { open } from "../../../src/ledger/record/sealing.ts";
import { maxLeafBytes } from "../../../src/ledger/tlog/tiles.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../../contract/ledger-records.ts";

const clock = manualClock();
const makeRecord = recordMaker(clock, seededRandom());
const alice = tenant("alice");
const seed = (count: number) => seededRandom("seed")(new Uint8Array(seedBytes(count)));

function recordText({ leaf, sealed, opening }: SealedEntry): string {
  return Buffer.from(open(sealed, opening, parseLeaf(leaf).commitment)).toString("utf8");
}

test("the bytes of a record are stable", () => {
  const record = makeRecord(alice, { recordId: makeRecord(alice).recordId });
  const head = { origin: "o/1", size: 7, lastRecordedAtMs: 0 };
  const { entries } = sequence(head, [written(record)], clock.now(), seed(1), "o");
  expect(entries.map(recordText)).toEqual([
    '{"caller":{"auth_source":"bearer_token","principal_id":"principal-1","subject":"subject-1"},"kind":"decision",' +
      '"log":"o/1","outcome":{"allow":true,"reasons":["platform.allow"]},' +
      `"record_id":"${record.recordId}","recorded_at":"2026-01-02T03:04:05.006Z",` +
      '"request":{"content_size_bytes":12,"labels":["pii"],"operation":"protect","workload":{"application":"billing"}},' +
      '"request_digest":"sha256:49fe0a94fe95b339f6091c0fe72ebacca09484c038c011cd8f0868963a155771",' +
      '"request_id":"request-1","route":"/v1/sdk/protection-plan","tenant_id":"alice"}',
  ]);
});

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
