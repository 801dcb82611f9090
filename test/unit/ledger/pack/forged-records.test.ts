/** Logs whose operator wrote what does not belong together: proven in the log, and refused all the same. */
import { expect, test } from "vitest";
import { auditLog } from "../../../../src/ledger/audit/audit.ts";
import type { NoteVerifier } from "../../../../src/ledger/tlog/note-keys.ts";
import { memoryLog, moment } from "./memory-log.ts";
import { linesIn, sealLines, verifyText } from "./packs.ts";

type Members = Record<string, unknown>;

/** Genesis, leaf 1, the forged leaf 2. */
async function refusalOf(change: (leaf: Members, record: Members) => void): Promise<string> {
  const log = memoryLog();
  log.append();
  log.forge(change);
  return verifyText(await log.pack({ to: moment(100) }), [log.verifier()]).then(
    () => "accepted",
    ({ message }: Error) => message,
  );
}

test("a change in both record and leaf is the operator's word", async () => {
  const kind = (leaf: Members, record: Members) =>
    Object.assign(leaf, { kind: Object.assign(record, { kind: "evidence" }).kind });
  expect(await refusalOf(kind)).toBe("accepted");
});

test.each([
  [
    "of another tenant",
    (_: Members, record: Members) => Object.assign(record, { tenant_id: "bob" }),
    "is of another tenant",
  ],
  ["of another log", (_, record) => Object.assign(record, { log: "ledger.example/0" }), "is of another log"],
  ["with another id", (leaf) => Object.assign(leaf, { record_id: "x" }), "has another record_id than its leaf"],
  ["of another kind", (leaf) => Object.assign(leaf, { kind: "evidence" }), "has another kind than its leaf"],
  [
    "of another time",
    (_, record) => Object.assign(record, { recorded_at: moment(50) }),
    "has another recorded_at than its leaf",
  ],
  [
    "by another policy",
    (_, record) => Object.assign(record, { outcome: { policy_revision: "x" } }),
    "has another policy_revision than its leaf",
  ],
  ["of another request", (_, record) => Object.assign(record, { request: {} }), "has another request than its digest"],
  ["without request", (_, record) => delete record.request, "is malformed"],
  ["that is no JSON", (_, record) => Object.assign(record, { text: "{" }), "is malformed"],
  [
    "with a member twice",
    (_, record) => Object.assign(record, { text: `{"kind":"x",${JSON.stringify(record).slice(1)}` }),
    "is malformed",
  ],
  [
    "that is nested too deep",
    (_, record) => Object.assign(record, { text: `${"[".repeat(9_999)}${"]".repeat(9_999)}` }),
    "is malformed",
  ],
] as readonly (readonly [string, (leaf: Members, record: Members) => void, string])[])(
  "a record %s is refused",
  async (_, change, message) => {
    expect(await refusalOf(change)).toMatch(new RegExp(`^line \\d+: the record of leaf 2 ${message}$`));
  },
);

test.each([
  ["a second genesis", (leaf: Members) => Object.assign(leaf, { kind: "genesis" }), "cannot be of kind genesis"],
  ["a member more", (leaf) => Object.assign(leaf, { note: "x" }), "is malformed"],
  [
    "a time that does not compare",
    (leaf) => Object.assign(leaf, { recorded_at: "2026-01-02T00:00:01Z" }),
    "is malformed",
  ],
  [
    "an older time",
    (leaf, record) =>
      Object.assign(leaf, Object.assign(record, { recorded_at: moment(-9) }) && { recorded_at: moment(-9) }),
    "is older than the one before it",
  ],
] as readonly (readonly [string, (leaf: Members, record: Members) => void, string])[])(
  "a leaf with %s is refused",
  async (_, change, message) => {
    expect(await refusalOf(change)).toMatch(new RegExp(`^line \\d+: leaf 2 ${message}$`));
  },
);

test("kinds that are never erased cannot be marked erased", async () => {
  const log = memoryLog();
  log.append();
  const lines = linesIn(await log.pack({ to: moment(100) })).map((line) => {
    if (line.type !== "entry" || line.leaf_index !== 0) return line;
    const { opening: _, record: __, ...others } = line;
    return { ...others, erased: true as const };
  });
  await expect(verifyText(sealLines(lines), [log.verifier()])).rejects.toThrow(
    "line 2: leaf 0 is of a kind that is never erased",
  );
});

test("an erasure that names the wrong leaf erases nothing", async () => {
  const log = memoryLog();
  const id = log.append();
  log.forgeErasure(id, 0, 1);
  await expect(verifyText(await log.pack({ to: moment(100) }), [log.verifier()])).rejects.toThrow(
    "leaf 2 names the wrong leaf for what it erases",
  );
});

test("one erasure does not cover two records of one id", async () => {
  const log = memoryLog();
  log.forgeTwins();
  await expect(verifyText(await log.pack({ to: moment(100) }), [log.verifier()])).rejects.toThrow(
    "leaf 2 has the id of another erased record",
  );
  const { problem } = await auditLog(log.source, log.head());
  expect(problem).toEqual({ leafIndex: 2, message: "leaf 2 has the id of another record that cannot be opened" });
});

test("an old key counts beside the new one only after its rotation is shown", async () => {
  const log = memoryLog();
  log.append();
  const { both, alone, verifier } = log.rotate();
  const verdict = (text: string, ...keys: NoteVerifier[]) =>
    verifyText(text, keys).then(
      () => "accepted",
      ({ message }: Error) => message,
    );
  const range = { to: moment(100) };
  expect(await verdict(await log.pack(range, both()), log.verifier())).toBe("accepted");
  expect(await verdict(await log.pack(range, both()), verifier())).toBe("accepted");
  expect(await verdict(await log.pack(range, alone()), log.verifier(), verifier())).toBe("accepted");
  expect(await verdict(await log.pack(range), log.verifier(), verifier())).toBe(
    `line 5: leaf 2 replaced the key ${log.verifier().keyId}, which signed alone`,
  );
});
