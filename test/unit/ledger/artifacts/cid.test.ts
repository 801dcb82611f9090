import { bases } from "multiformats/basics";
import { CID } from "multiformats/cid";
import { expect, test } from "vitest";
import { parseCid, rawCid } from "../../../../src/ledger/artifacts/cid.ts";
import { sha256 } from "../../domain/world.ts";

// The well-known CID of no bytes at all.
const emptyCid = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";

test("the raw CIDv1 of bytes is the published one", () => {
  expect(rawCid(sha256(""))).toBe(emptyCid);
  // `echo -n "hello world" | ipfs add --cid-version 1 --raw-leaves`
  expect(rawCid(sha256("hello world"))).toBe("bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e");
});

test("every base and version of a CID shows the same hash", () => {
  const cid = CID.parse(emptyCid);
  const hash = { hash: "sha256", algorithm: "sha256", hex: sha256("") };
  const all = Object.values(bases).filter(({ name }) => name !== "identity");
  expect(all.length).toBeGreaterThan(20);
  for (const text of all.map((base) => cid.toString(base))) {
    expect(parseCid(text)).toEqual({ ...hash, isRaw: true });
  }
  for (const other of [CID.createV0(cid.multihash as never), CID.createV1(0x71, cid.multihash)]) {
    expect(parseCid(other.toString())).toEqual({ ...hash, isRaw: false });
  }
});

test.each([
  "",
  "b",
  "Qm",
  "bafkrei",
  "not a cid",
  `${emptyCid}x`,
  emptyCid.slice(0, -2),
  "z".repeat(256),
  "\u0130".repeat(9),
  `z${CID.createV0(CID.parse(emptyCid).multihash as never)}`,
])("%j is no CID", (text) => expect(parseCid(text)).toBeUndefined());
