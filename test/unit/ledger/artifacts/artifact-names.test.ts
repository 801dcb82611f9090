/** Digests and content identifiers of artifacts: which of them are unusual, and which name the same bytes. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { bases } from "multiformats/basics";
import { CID } from "multiformats/cid";
import { create as createMultihash } from "multiformats/hashes/digest";
import { expect, test } from "vitest";
import { digestWarnings } from "../../../../src/domain/answer.ts";
import { parseCid, rawCid } from "../../../../src/ledger/artifacts/cid.ts";
import {
  canonicalDigest,
  digestOddities,
  hashOfDigest,
  isDigestOf,
  parseDigest,
} from "../../../../src/ledger/artifacts/digest.ts";
import { artifactNames, nameOfCid, registeredNames } from "../../../../src/ledger/artifacts/registrations.ts";
import { must, sha256 } from "../../domain/world.ts";

const hex = sha256("an artifact");
const bytes = Buffer.from(hex, "hex");
const cid = CID.parse(rawCid(hex));
const structure = CID.createV1(0x70, cid.multihash);
// The well-known CID of no bytes at all.
const emptyCid = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";

test.each([
  [`sha256:${"a".repeat(64)}`, []],
  [`sha256:${"A".repeat(64)}`, []],
  [`sha-512:${"0".repeat(128)}`, []],
  [`sha3-384:${"0".repeat(96)}`, []],
  [`blake2b:${"0".repeat(128)}`, []],
  [`blake3:${"0".repeat(64)}`, []],
  [`blake3:${"0".repeat(63)}`, ["not_hex"]],
  ["sha256:integration-full-plaintext", ["not_hex"]],
  [`sha256:${"g".repeat(64)}`, ["not_hex"]],
  [`sha256:${"a".repeat(64)}\n`, ["not_hex"]],
  [`sha1:${"0".repeat(40)}`, ["weak"]],
  ["md5:x", ["not_hex", "weak"]],
  ["house-tree:anything", []],
])("the digest %j has the oddities %j", (digest, oddities) => expect(digestOddities(digest)).toEqual(oddities));

test("a digest is split at its first colon", () => {
  expect(parseDigest("sha256:a:b\nc")).toEqual({ algorithm: "sha256", value: "a:b\nc" });
  for (const text of ["sha256", "sha256:", ":a", "SHA256:a", "-a:b"]) expect(parseDigest(text)).toBeUndefined();
});

/** Hash functions as digests name them, and their names in Node. */
const hashes = "md5 sha1 sha224 sha256 sha384 sha512 sha512-256 sha3-224 sha3-256 sha3-384 sha3-512 blake2b blake2s"
  .split(" ")
  .map((algorithm) => [algorithm, must(hashOfDigest(`${algorithm}:x`))] as const);

test("every known hash has its expected length", () => {
  for (const [algorithm, name] of hashes)
    expect(digestOddities(`${algorithm}:${createHash(name).digest("hex")}`)).not.toContain("not_hex");
  for (const text of ["blake3:x", "nonsense"]) expect(hashOfDigest(text)).toBeUndefined();
});

test("warnings about digests name the member and never repeat the value", () => {
  fc.assert(
    fc.property(fc.string({ minLength: 12 }), (value) => {
      for (const warning of digestWarnings("content_digest", `md5:${value}`)) {
        expect(warning.startsWith("content_digest ")).toBe(true);
        expect(warning).not.toContain(value);
      }
    }),
  );
});

test.each(["sha256", "sha-256", "sha2-256"])("one name stands for every spelling of a digest of %s", (algorithm) => {
  expect(canonicalDigest(`${algorithm}:${hex.toUpperCase()}`)).toBe(`sha256:${hex}`);
});

test("every spelling of any hash is that hash and has its name, and nothing else is", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), fc.constantFrom(...hashes), (one, others, [algorithm, name]) => {
      const hash = createHash(name).update(one).digest();
      const other = createHash(name).update(others).digest("hex");
      const own = hash.toString("hex");
      const base64 = hash.toString("base64");
      for (const value of [own, own.toUpperCase(), base64, base64.replace(/=+$/, ""), hash.toString("base64url")]) {
        expect(isDigestOf(`x:${value}`, own)).toBe(true);
        expect(canonicalDigest(`${algorithm}:${value}`)).toBe(canonicalDigest(`${algorithm}:${own}`));
      }
      expect(isDigestOf(`x:${other}`, own)).toBe(other === own);
      expect(canonicalDigest(`${algorithm}:${other}`) === canonicalDigest(`${algorithm}:${own}`)).toBe(other === own);
      expect(isDigestOf(`x:${own.slice(2)}`, own)).toBe(false);
    }),
  );
});

test("an unknown hash is named as it is written", () => {
  for (const text of ["sha256:integration-full-plaintext", `sha256:${hex}00`, "x:Ab", `x:${hex.toUpperCase()}`])
    expect(canonicalDigest(text)).toBe(text);
  expect(canonicalDigest("sha-256:Not-Hex")).toBe("sha256:Not-Hex");
  expect(nameOfCid("no cid")).toBe("cid:no cid");
});

test("the raw CIDv1 of bytes is the published one", () => {
  expect(rawCid(sha256(""))).toBe(emptyCid);
  // `echo -n "hello world" | ipfs add --cid-version 1 --raw-leaves`
  expect(rawCid(sha256("hello world"))).toBe("bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e");
});

test("every base and version of a CID shows the same hash, which names the bytes if it is raw", () => {
  const shown = { hash: "sha256", algorithm: "sha256", hex };
  const all = Object.values(bases).filter(({ name }) => name !== "identity");
  expect(all.length).toBeGreaterThan(20);
  for (const text of all.map((base) => cid.toString(base))) {
    expect(parseCid(text)).toEqual({ ...shown, isRaw: true });
    expect(nameOfCid(text)).toBe(`sha256:${hex}`);
  }
  // A structure over the bytes is another artifact.
  for (const other of [structure, structure.toV0()]) {
    expect(parseCid(other.toString())).toEqual({ ...shown, isRaw: false });
    expect(nameOfCid(other.toString())).toBe(`cid:${structure}`);
  }
});

test("a CID of the bytes has their digest's name even if the hash is not supported here", () => {
  for (const [code, algorithm] of [
    [0x1e, "blake3"],
    [0xb220, "blake2b-256"],
  ] as const) {
    const named = CID.createV1(0x55, createMultihash(code, bytes));
    expect(nameOfCid(named.toString())).toBe(canonicalDigest(`${algorithm}:${hex}`));
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

test("each name occurs once, from the members that name the artifact itself", () => {
  expect(artifactNames({ content_digest: `sha256:${hex}` })).toEqual([]);
  expect(artifactNames({ artifact_digest: `sha256:${hex}`, artifact_cid: `${cid}` })).toEqual([`sha256:${hex}`]);
  expect(artifactNames({ artifact_cid: `${structure}` })).toEqual([`cid:${structure}`]);
  const request = { artifact_digest: "sha512:x", artifact_merkle_root_cid: `${structure}` };
  expect(registeredNames(request, { artifact_cid: `${cid}` })).toEqual(["sha512:x", `sha256:${hex}`]);
});
