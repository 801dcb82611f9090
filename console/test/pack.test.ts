import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { expect, test } from "vitest";
import { verifyPack } from "../src/pack.ts";

const sha256 = (...parts: readonly (string | Uint8Array)[]) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const node = (left: Uint8Array, right: Uint8Array) => sha256(Uint8Array.of(1), left, right);

// A log of three leaves.
const origin = "ledger.example/log";
const leaves = [1, 2, 3].map((day) => {
  const members = { commitment: `hmac-sha256:${"0".repeat(64)}`, kind: day === 1 ? "genesis" : "evidence" };
  return JSON.stringify({ ...members, record_id: `${day}`, recorded_at: `2026-01-0${day}T00:00:00.000Z`, v: 1 });
});
const [first, second, last] = leaves.map((leaf) => sha256(Uint8Array.of(0), leaf)) as [Buffer, Buffer, Buffer];
const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const typed = Buffer.concat([Uint8Array.of(1), publicKey.export({ format: "der", type: "spki" }).subarray(-32)]);
const keyId = sha256(`${origin}\n`, typed).subarray(0, 4);
const key = `${origin}+${keyId.toString("hex")}+${typed.toString("base64")}`;
const head = `${origin}\n3\n${node(node(first, second), last).toString("base64")}\n`;
const signature = Buffer.concat([keyId, sign(null, Buffer.from(head), privateKey)]).toString("base64");
const header = {
  checkpoint: `${head}\n— ${origin} ${signature}\n`,
  format: "evidence-pack/v1",
  made_at: "2026-01-04T00:00:00.000Z",
  tenant_id: "tenant-a",
  type: "header",
};

interface Additions {
  readonly added?: readonly object[];
  readonly head?: object;
  readonly entry?: object;
}

const policy = { revision: `sha256:${"0".repeat(64)}`, type: "policy" };

/** The pack that shows the first leaf and the last of the log, alone; with more lines and members. */
function packOf(selection: object, { added = [], head = {}, entry = {} }: Additions = {}): string {
  const lines = [
    { ...header, selection, ...head },
    ...added,
    { leaf: leaves[0], leaf_index: 0, type: "entry", ...entry },
    { gap: [second.toString("base64")], leaf: leaves[2], leaf_index: 2, type: "entry" },
  ];
  const text = lines.map((line) => `${JSON.stringify(Object.fromEntries(Object.entries(line).sort()))}\n`).join("");
  return `${text}${JSON.stringify({ entries: 2, sha256: sha256(text).toString("hex"), type: "end" })}\n`;
}

test("a pack of a period before the log shows that the log has nothing of it", async () => {
  expect(await verifyPack(packOf({ to: "2026-01-01T00:00:00.000Z" }), [key])).toMatchObject({
    records: [],
    range: { isClosed: true },
  });
});

test.each([
  { to: "2026-01-02T00:00:00.000Z" },
  { to: "9999-12-31T23:59:59.999Z" },
  // As text, it is before every time of a record.
  { to: "+010000-01-01T00:00:00.000Z" },
  { from: "-000001-01-01T00:00:00.000Z", to: "+275760-09-13T00:00:00.000Z" },
])("a pack without the records of the period %j is refused", async (selection) => {
  await expect(verifyPack(packOf(selection), [key])).rejects.toThrow("line");
});

test.each<[string, Additions, string]>([
  ["an unknown member of the header", { head: { note: "x" } }, "line 1: has an unknown member"],
  ["no time of its making", { head: { made_at: "now" } }, "line 1: a time of it is malformed"],
  ["an unknown member of an entry", { entry: { note: "x" } }, "line 2: has an unknown member"],
  ["an entry that is not erased, and says so", { entry: { erased: false } }, "line 2: its erasure is malformed"],
  ["a policy that decided nothing", { added: [policy] }, "line 3: was not decided by the policy revision before it"],
  ["a policy twice", { added: [policy, policy] }, "line 3: the policy revision is there twice"],
])("a pack with %s is refused", async (_, additions, problem) => {
  const selection = { to: "2026-01-01T00:00:00.000Z" };
  await expect(verifyPack(packOf(selection, additions), [key])).rejects.toThrow(problem);
});
