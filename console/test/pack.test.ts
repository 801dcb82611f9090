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

/** The pack that shows the first leaf and the last of the log, alone. */
function packOf(selection: object): string {
  const lines = [
    { ...header, selection },
    { leaf: leaves[0], leaf_index: 0, type: "entry" },
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
