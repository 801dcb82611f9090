/** The service's verifier, and the TypeScript package's by Node and by WebCrypto, on the receipts of every language. */
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import vectors from "../../../clients/conformance/vectors/receipts.json" with { type: "json" };
import { canonicalText } from "../../../clients/typescript/src/receipts/record.ts";
import {
  continues,
  ReceiptError,
  type VerifiedReceipt,
  verifyReceipt,
} from "../../../clients/typescript/src/receipts.ts";
import { ReceiptSchema } from "../../../gen/platform/sdk/v1/common_pb.ts";
import { parseBase64 } from "../../../src/base/text-forms.ts";
import { type GivenReceipt, verifyReceipt as verifyByService } from "../../../src/ledger/record/receipt.ts";
import { verifyConsistency } from "../../../src/ledger/tlog/tree-verify.ts";
import { parseTrustedKey } from "../../../src/ledger/tlog/trusted-key.ts";

type Vector = (typeof vectors.receipts)[number];

const verify = async ({ receipt, log_key }: Vector, key = log_key): Promise<VerifiedReceipt> =>
  verifyReceipt(fromJson(ReceiptSchema, receipt as JsonValue), key);
const verifyInService = ({ receipt, log_key }: Vector) => {
  const key = parseTrustedKey(log_key);
  if (key === undefined) throw new Error("the key cannot be read");
  return verifyByService(receipt as unknown as GivenReceipt, key);
};
const named = (name: string): Vector => vectors.receipts.find((each) => each.name === name) as Vector;
const good = vectors.receipts.filter((each) => !("refused" in each));

test.each(vectors.receipts)("$name: $refused", async (vector) => {
  if ("refused" in vector) {
    // What is no receipt at all is refused before the verifier sees it.
    await expect(verify(vector)).rejects.toThrow();
    expect(() => verifyInService(vector)).toThrow(expect.objectContaining({ name: "NoteError" }));
  } else {
    for (const { record } of [await verify(vector), verifyInService(vector)])
      expect(record?.record_id).toBe("leaf" in vector.receipt ? vector.receipt.record_id : undefined);
  }
});

test("every vector has a name of its own, and what must be refused is among them", () => {
  const names = vectors.receipts.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(names.length - good.length).toBeGreaterThan(50);
  expect("refused" in named("a signature that stands twice")).toBe(true);
});

test("a browser, which has only WebCrypto, gets the same results", async () => {
  const builtin = vi.spyOn(process, "getBuiltinModule").mockReturnValue(undefined as never);
  vi.resetModules();
  const browsers = await import("../../../clients/typescript/src/receipts.ts");
  expect(builtin).toHaveBeenCalledWith("node:crypto");
  builtin.mockRestore();
  for (const vector of vectors.receipts) {
    const verifying = async () =>
      browsers.verifyReceipt(fromJson(ReceiptSchema, vector.receipt as JsonValue), vector.log_key);
    if ("refused" in vector) await expect(verifying(), vector.name).rejects.toThrow();
    else expect(await verifying()).toEqual(await verify(vector));
  }
});

test("a caller that changes a verified root does not affect later verifications", async () => {
  const [first] = good as [Vector];
  const { root } = await verify(first);
  const before = root.slice();
  root.fill(0);
  expect((await verify(first)).root).toEqual(before);
});

test("proofs of consistency prove what they say", async () => {
  for (const { earlier, later, proof, continues: expected } of vectors.consistency) {
    const [first, second] = [await verify(named(earlier)), await verify(named(later))];
    const hashes = proof.split("\n").flatMap((line) => (line === "" ? [] : [parseBase64(line) ?? new Uint8Array(0)]));
    const [from, to] = [first, second].map(({ treeSize, root }) => ({ size: treeSize, root }));
    expect(from && to && verifyConsistency(from, to, hashes), `${earlier}, ${later}`).toBe(expected);
    if (first.logOrigin === second.logOrigin) expect(await continues(first, second, proof)).toBe(expected);
  }
});

/** Lines of a proof that the log's key does not vouch for: what is `extra`, and other signers' signatures. */
function isUnsigned(proof: string, at: number, logKey: string): boolean {
  const line = proof.slice(proof.lastIndexOf("\n", at - 1) + 1).split("\n", 1)[0] as string;
  const [signer] = logKey.split("+") as [string];
  return line.startsWith("extra ") || (line.startsWith("— ") && !line.startsWith(`— ${signer} `));
}

test("no receipt verifies with a changed character under the signature", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...good), fc.nat(), fc.constantFrom(..."0aA=+/ \n"), async (vector, at, put) => {
      // A brief receipt shows a position: which record stands there is for the whole one to show.
      const isShown = (name: string) => name !== "record_id" || "leaf" in vector.receipt;
      const members = Object.entries(vector.receipt).filter(
        ([name, value]) => typeof value === "string" && isShown(name),
      );
      const [name, value] = members[at % members.length] as [string, string];
      const place = at % value.length;
      fc.pre(value[place] !== put && !(name === "proof" && isUnsigned(value, place, vector.log_key)));
      const receipt = { ...vector.receipt, [name]: value.slice(0, place) + put + value.slice(place + 1) } as never;
      await expect(verify({ ...vector, receipt })).rejects.toThrow();
      expect(() => verifyInService({ ...vector, receipt })).toThrow();
    }),
    { numRuns: 500 },
  );
});

test("no receipt verifies by a key that did not sign", async () => {
  const [first] = good;
  const { log_key } = vectors.receipts.find(
    (each) => each.log_key.split("@")[0] !== first?.log_key.split("@")[0],
  ) as Vector;
  await expect(verify(first as Vector, log_key)).rejects.toThrow(ReceiptError);
});

test("a text that is no record is refused, wherever an answer has it", () => {
  fc.assert(
    fc.property(fc.constantFrom("\0", "\ud800", "\udfff"), fc.string(), fc.string(), (bad, before, after) => {
      const text = before + bad + after;
      fc.pre(!text.isWellFormed() || text.includes("\0"));
      for (const value of [text, [text], { text }, { [text]: 1 }, { a: [{ b: text }] }])
        expect(() => canonicalText(value)).toThrow(ReceiptError);
    }),
  );
  const nested = Array.from({ length: 64 }).reduce<JsonValue>((inner) => [inner], 1);
  expect(() => canonicalText(nested)).toThrow(ReceiptError);
});
