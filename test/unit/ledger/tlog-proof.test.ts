import { expect, test } from "vitest";
import { findReceipt, type GivenReceipt } from "../../../src/ledger/record/receipt.ts";
import { signCheckpoint } from "../../../src/ledger/tlog/checkpoint.ts";
import { formatVerifierKey, noteSigner, parseVerifierKey, signingKeyOf } from "../../../src/ledger/tlog/note-keys.ts";
import { RightEdge } from "../../../src/ledger/tlog/right-edge.ts";
import { formatPath, formatPaths, formatTlogProof, verifyTlogProof } from "../../../src/ledger/tlog/tlog-proof.ts";
import { must } from "../domain/world.ts";
import { leaves as allLeaves, edgeOf } from "./naive-tree.ts";

const origin = "example.com/log";
const key = signingKeyOf(new Uint8Array(32).fill(1));
const verifier = must(parseVerifierKey(formatVerifierKey(origin, key.publicKey)));

const leaves = allLeaves.slice(0, 7);
const tree = edgeOf(leaves).tree();
const checkpoint = signCheckpoint({ origin, size: 7, root: tree.root() }, [noteSigner(origin, key)]);
const proofOf = (index: number) => formatTlogProof(index, formatPath(tree.inclusionProof(index)), checkpoint);
const proof = proofOf(5);
const [, indexLine = "", firstHash = ""] = proof.split("\n");

test("a proof verifies for its leaf, and states its place", () => {
  leaves.forEach((leaf, index) => {
    expect(verifyTlogProof(proofOf(index), leaf, verifier)).toMatchObject({ index, checkpoint: { size: 7, origin } });
  });
  expect(() => verifyTlogProof(proof, leaves[4] as Uint8Array, verifier)).toThrow("does not lead");
});

test("paths that are written together equal those written one by one", () => {
  const growing = new RightEdge();
  // Around the widths of tiles, and where a batch fills one.
  for (const [size, least] of [
    ...Array.from({ length: 40 }, (_, at) => [at + 1, 0]),
    [255, 250],
    [257, 200],
    [600, 500],
  ]) {
    while (growing.size < (size as number)) growing.append(allLeaves[growing.size] as Uint8Array);
    const grown = growing.tree();
    for (let first = least as number; first <= grown.size; first++) {
      const each = Array.from({ length: grown.size - first }, (_, at) => formatPath(grown.inclusionProof(first + at)));
      expect(formatPaths(grown, first), `from ${first} of ${size}`).toEqual(each);
    }
  }
});

test("the proof of the only leaf has no hashes", () => {
  const leaf = leaves[0] as Uint8Array;
  const signed = signCheckpoint({ origin, size: 1, root: leaf }, [noteSigner(origin, key)]);
  const text = formatTlogProof(0, "", signed);
  expect(text).toBe(`c2sp.org/tlog-proof@v1\nindex 0\n\n${signed}`);
  expect(verifyTlogProof(text, leaf, verifier)).toMatchObject({ index: 0 });
});

test.each([
  ["an index beyond 2^53 - 1", proof.replace(indexLine, "index 9007199254740993")],
  ["extra that is no base64", proof.replace("\nindex", "\nextra !\nindex")],
  ["extra after the index", proof.replace(indexLine, `${indexLine}\nextra YWdl`)],
  ["a short hash", proof.replace(firstHash, "AAAA")],
  ["64 hashes", proof.replace(firstHash, `${firstHash}\n`.repeat(64).trimEnd())],
  ["more than 256 KiB", proof + "x".repeat(256 * 1024)],
])("a proof with %s is refused", (_, text) => {
  expect(() => verifyTlogProof(text, leaves[5] as Uint8Array, verifier)).toThrow(
    expect.objectContaining({ name: "NoteError" }),
  );
});

const receipt: GivenReceipt = {
  record_id: "r",
  log_origin: origin,
  leaf_index: 1,
  tree_size: 2,
  leaf_hash: "AA==",
  proof: "p",
};

test.each([
  ["itself", receipt],
  ["a decision's answer", { decision: { allow: true, receipt } }],
  ["a registration's answer", { registration: { receipt } }],
  ["an event's answer", { ingestion: { receipt } }],
  ["a member named receipt", { receipt }],
])("a receipt is found in %s", (_, value) => {
  expect(findReceipt(value)).toEqual(receipt);
});

test.each([
  null,
  1,
  "text",
  [],
  {},
  { receipt: null },
  { ...receipt, leaf_index: "1" },
  { ...receipt, tree_size: 1.5 },
  { ...receipt, leaf: 1 },
  { ...receipt, proof: undefined },
])("there is no receipt in %j", (value) => {
  expect(findReceipt(value)).toBeUndefined();
});
