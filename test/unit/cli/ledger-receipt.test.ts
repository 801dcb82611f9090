/** `ledger receipt`: a record of the store with its proof, as the service would have answered it now. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { enterWithStore, erasing, leave, run, served } from "./surroundings.ts";

let directory: string;

beforeEach(() => {
  directory = enterWithStore();
});
afterEach(() => leave(directory));

async function receiptOf(recordId: string, ...options: string[]) {
  const { code, out } = await run("ledger", "receipt", recordId, ...options);
  expect(code).toBe(0);
  return JSON.parse(out);
}

/** Verifies a receipt by the keys that the store signs with. */
async function verify(receipt: object) {
  const [{ keys }] = JSON.parse((await run("keys", "show", "--tenant", "alice", "--json")).out).logs;
  const file = join(directory, "receipt.json");
  writeFileSync(file, JSON.stringify(receipt));
  return run("ledger", "receipt", "verify", file, ...keys.flatMap((key: string) => ["--key", key]), "--json");
}

test("the receipt of a record verifies, in the newest tree of its log", async () => {
  const [first] = await served(directory, ["alice", "alice", "bob"]);
  const receipt = await receiptOf(first?.recordId ?? "", "--tenant", "alice");
  expect(receipt).toMatchObject({ record_id: first?.recordId, leaf_index: first?.leafIndex, tree_size: 3 });
  expect(receipt).not.toHaveProperty("cose");
  expect(await verify(receipt)).toMatchObject({ code: 0, out: expect.stringContaining('"proves": "record"') });
});

test("with --cose, it has a COSE receipt that verifies too, and not in the place of another's", async () => {
  const [first, second] = await served(directory, ["alice", "alice"]);
  const receipt = await receiptOf(first?.recordId ?? "", "--cose");
  expect(await verify(receipt)).toMatchObject({ code: 0 });
  const { cose } = await receiptOf(second?.recordId ?? "", "--cose");
  expect(await verify({ ...receipt, cose })).toMatchObject({
    code: 1,
    out: expect.stringContaining("The COSE receipt is not of this leaf and tree."),
  });
});

test("an erased record, another tenant's and an unknown one have no receipt", async () => {
  const [first, second] = await served(directory, ["alice", "bob"]);
  await run("ledger", "erase", "--tenant", "alice", "--record", first?.recordId ?? "", ...erasing);
  const refused = async (recordId: string, problem: string) =>
    expect(await run("ledger", "receipt", recordId, "--tenant", "alice")).toMatchObject({
      code: 1,
      err: expect.stringContaining(problem),
    });
  await refused(first?.recordId ?? "", "the record was erased");
  await refused(second?.recordId ?? "", "the log of tenant alice has no such record");
  await refused("7", "<record>: is not a record id");
});
