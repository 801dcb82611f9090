/** Logs whose operator wrote what does not belong together: proven in the log, and refused all the same. */
import { expect, test } from "vitest";
import { auditLog } from "../../../../src/ledger/audit/audit.ts";
import { type MemoryLog, memoryLog, moment } from "./memory-log.ts";
import { leafAlone, linesIn, sealLines, verdictOf } from "./packs.ts";

type Members = Readonly<Record<string, unknown>>;
const range = { to: moment(100) };
const verdict = async (log: MemoryLog) => verdictOf(await log.pack(range), [log.verifier()]);

/** Genesis, leaf 1, and leaf 2 with these members in its record and in its leaf. */
function forgedLog(record: Members, leaf: Members = {}): MemoryLog {
  const log = memoryLog();
  log.append();
  log.forge((ownLeaf, ownRecord) => {
    Object.assign(ownLeaf, leaf);
    Object.assign(ownRecord, record);
  });
  return log;
}

const verdictOfForged = (record: Members, leaf?: Members) => verdict(forgedLog(record, leaf));

test("a change in both record and leaf is the operator's word", async () => {
  expect(await verdictOfForged({ kind: "evidence" }, { kind: "evidence" })).toBe("accepted");
});

test.each<[string, Members, Members, string]>([
  ["of another tenant", { tenant_id: "bob" }, {}, "is of another tenant"],
  ["of another log", { log: "ledger.example/0" }, {}, "is of another log"],
  ["with another id", {}, { record_id: "x" }, "has another record_id than its leaf"],
  ["of another kind", {}, { kind: "evidence" }, "has another kind than its leaf"],
  ["of another time", { recorded_at: moment(50) }, {}, "has another recorded_at than its leaf"],
  ["by another policy", { outcome: { policy_revision: "x" } }, {}, "has another policy_revision than its leaf"],
  ["of another request", { request: {} }, {}, "has another request than its digest"],
  ["without request", { request: undefined }, {}, "is malformed"],
  ["that is no JSON", { text: "{" }, {}, "is malformed"],
  ["that is nested too deep", { text: `${"[".repeat(9_999)}${"]".repeat(9_999)}` }, {}, "is malformed"],
])("a record %s is refused in a pack, and found by an audit of the log", async (_, record, leaf, problem) => {
  const log = forgedLog(record, leaf);
  expect(await verdict(log)).toMatch(new RegExp(`^line \\d+: the record of leaf 2 ${problem}$`));
  const found = leaf.record_id === undefined ? `the record of leaf 2 ${problem}` : /^leaf 2 is not of the record/;
  expect((await auditLog(log.source, log.head())).problem?.message).toMatch(found);
});

test.each<[string, Members, Members, string]>([
  ["a second genesis", {}, { kind: "genesis" }, "cannot be of kind genesis"],
  ["a member more", {}, { note: "x" }, "is malformed"],
  ["a time that does not compare", {}, { recorded_at: "2026-01-02T00:00:01Z" }, "is malformed"],
  ["an older time", { recorded_at: moment(-9) }, { recorded_at: moment(-9) }, "is older than the one before it"],
])("a leaf with %s is refused", async (_, record, leaf, problem) => {
  expect(await verdictOfForged(record, leaf)).toMatch(new RegExp(`^line \\d+: leaf 2 ${problem}$`));
});

test("kinds that are never erased cannot be marked erased", async () => {
  const log = memoryLog();
  log.append();
  const lines = linesIn(await log.pack(range)).map((line) =>
    line.type === "entry" && line.leaf_index === 0 ? { ...leafAlone(line), erased: true as const } : line,
  );
  expect(await verdictOf(sealLines(lines), [log.verifier()])).toBe("line 2: leaf 0 is of a kind that is never erased");
});

test("an erasure that names the wrong leaf erases nothing", async () => {
  const log = memoryLog();
  const id = log.append();
  log.forgeErasure(id, 0, 1);
  expect(await verdict(log)).toContain("leaf 2 names the wrong leaf for what it erases");
});

test("one erasure does not cover two records of one id", async () => {
  const log = memoryLog();
  log.forgeTwins();
  expect(await verdict(log)).toContain("leaf 2 has the id of another erased record");
  const { problem } = await auditLog(log.source, log.head());
  expect(problem).toEqual({ leafIndex: 2, message: "leaf 2 has the id of another record that cannot be opened" });
});

test("an old key counts beside the new one only after its rotation is shown", async () => {
  const log = memoryLog();
  log.append();
  const { both, alone, verifier } = log.rotate();
  const [old, next] = [log.verifier(), verifier()];
  expect(await verdictOf(await log.pack(range, both()), [old])).toBe("accepted");
  expect(await verdictOf(await log.pack(range, both()), [next])).toBe("accepted");
  expect(await verdictOf(await log.pack(range, alone()), [old, next])).toBe("accepted");
  expect(await verdictOf(await log.pack(range), [old, next])).toBe(
    `line 5: leaf 2 replaced the key ${old.keyId}, which signed alone`,
  );
});

test("two old keys do not count together after a rotation to a third", async () => {
  const log = memoryLog();
  const first = log.rotate();
  const second = log.rotate(first.next);
  const { keyId } = first.verifier();
  expect(await verdictOf(await log.pack(range, first.both()), [log.verifier()])).toBe(
    `line 4: leaf 2 replaced the key ${keyId}, which signed alone`,
  );
  expect(await verdictOf(await log.pack(range, second.both()), [first.verifier()])).toBe("accepted");
});
