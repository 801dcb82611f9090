/** `ledger receipt`: a record of the store with its proof, as the service would have answered it now. */
import { expect, test } from "vitest";
import { eachWithStore, erasing, fileOf, refused, run, served } from "./surroundings.ts";

eachWithStore();

async function receiptOf(recordId: string, ...options: string[]) {
  const { code, out } = await run("ledger", "receipt", recordId, ...options);
  expect(code).toBe(0);
  return JSON.parse(out);
}

/** Verifies a receipt by the keys that the store signs with. */
async function verify(receipt: object) {
  const [{ keys }] = JSON.parse((await run("keys", "show", "--tenant", "alice", "--json")).out).logs;
  const file = fileOf("receipt.json", JSON.stringify(receipt));
  return run("ledger", "receipt", "verify", file, ...keys.flatMap((key: string) => ["--key", key]), "--json");
}

test("the receipt of a record verifies, in the newest tree of its log", async () => {
  const [first] = await served(["alice", "alice", "bob"]);
  const receipt = await receiptOf(first?.recordId ?? "", "--tenant", "alice");
  expect(receipt).toMatchObject({ record_id: first?.recordId, leaf_index: first?.leafIndex, tree_size: 3 });
  expect(receipt).not.toHaveProperty("cose");
  expect(await verify(receipt)).toMatchObject({ code: 0, out: expect.stringContaining('"proves": "record"') });
});

test("--cose adds a COSE receipt that verifies too, and replaces no existing file", async () => {
  const [first, second] = await served(["alice", "alice"]);
  const receipt = await receiptOf(first?.recordId ?? "", "--cose");
  expect(await verify(receipt)).toMatchObject({ code: 0 });
  const { cose } = await receiptOf(second?.recordId ?? "", "--cose");
  expect(await verify({ ...receipt, cose })).toMatchObject({
    code: 1,
    out: expect.stringContaining("The COSE receipt is not of this leaf and tree."),
  });
});

test("an erased, foreign or unknown record has no receipt", async () => {
  const [first, second] = await served(["alice", "bob"]);
  await run("ledger", "erase", "--tenant", "alice", "--record", first?.recordId ?? "", ...erasing);
  const receipt = (recordId: string) => ["ledger", "receipt", recordId, "--tenant", "alice"];
  await refused(run(...receipt(first?.recordId ?? "")), "the record was erased");
  await refused(run(...receipt(second?.recordId ?? "")), "the log of tenant alice has no such record");
  await refused(run(...receipt("7")), "<record>: is not a record id");
});
