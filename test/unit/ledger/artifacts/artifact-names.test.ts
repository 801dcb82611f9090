import { createHash } from "node:crypto";
import fc from "fast-check";
import { base16upper } from "multiformats/bases/base16";
import { base58btc } from "multiformats/bases/base58";
import { base64pad } from "multiformats/bases/base64";
import { base256emoji } from "multiformats/bases/base256emoji";
import { CID } from "multiformats/cid";
import { create as createMultihash } from "multiformats/hashes/digest";
import { describe, expect, test } from "vitest";
import { rawCid } from "../../../../src/ledger/artifacts/cid.ts";
import { canonicalDigest, hashNames, isDigestOf } from "../../../../src/ledger/artifacts/digest.ts";
import { artifactNames, nameOfCid, registeredNames } from "../../../../src/ledger/artifacts/registrations.ts";

const hex = createHash("sha256").update("an artifact").digest("hex");
const bytes = Buffer.from(hex, "hex");
const cid = CID.parse(rawCid(hex));
const structure = CID.createV1(0x70, cid.multihash);

describe("one name for every spelling of a digest", () => {
  test.each([
    ["hexadecimal", `sha256:${hex}`],
    ["in capitals", `sha256:${hex.toUpperCase()}`],
    ["another name of the algorithm", `sha-256:${hex}`],
    ["the multicodec's name of it", `sha2-256:${hex}`],
    ["base64", `sha256:${bytes.toString("base64")}`],
    ["base64 without padding", `sha256:${bytes.toString("base64").replace(/=+$/, "")}`],
    ["base64url", `sha256:${bytes.toString("base64url")}`],
  ])("%s", (_, digest) => expect(canonicalDigest(digest)).toBe(`sha256:${hex}`));

  test.each([
    ["base32", cid.toString()],
    ["base58", cid.toString(base58btc)],
    ["hexadecimal in capitals", cid.toString(base16upper)],
    ["base64 with padding", cid.toString(base64pad)],
    ["emoji", cid.toString(base256emoji)],
  ])("the CID of the bytes, in %s", (_, text) => expect(nameOfCid(text)).toBe(`sha256:${hex}`));
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

test("an unknown hash is named as it is written", () => {
  for (const text of ["sha256:integration-full-plaintext", `sha256:${hex}00`, "x:Ab", `x:${hex.toUpperCase()}`])
    expect(canonicalDigest(text)).toBe(text);
  expect(canonicalDigest("sha-256:Not-Hex")).toBe("sha256:Not-Hex");
  expect(nameOfCid("no cid")).toBe("cid:no cid");
});

test("a structure over the bytes is another artifact, in either version", () => {
  expect(nameOfCid(structure.toString())).toBe(`cid:${structure}`);
  expect(nameOfCid(structure.toV0().toString())).toBe(`cid:${structure}`);
});

test("digests have one name exactly if they are equal", () => {
  const spelled = fc.tuple(fc.constantFrom("hex", "base64", "base64url"), fc.boolean()).map(([form, isUpper]) => {
    return (of: Buffer): string => {
      const text = of.toString(form as BufferEncoding);
      return form === "hex" && isUpper ? text.toUpperCase() : text;
    };
  });
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), fc.constantFrom(...hashNames), spelled, (one, other, name, spell) => {
      const [first, second] = [one, other].map((data) => createHash(name).update(data).digest()) as [Buffer, Buffer];
      const digest = `${name}:${spell(first)}`;
      expect(canonicalDigest(digest)).toBe(canonicalDigest(`${name}:${first.toString("hex")}`));
      const isSame = canonicalDigest(digest) === canonicalDigest(`${name}:${second.toString("hex")}`);
      expect(isSame).toBe(isDigestOf(digest, second.toString("hex")));
    }),
  );
});

test("each name occurs once, from the members that name the artifact itself", () => {
  expect(artifactNames({ content_digest: `sha256:${hex}` })).toEqual([]);
  expect(artifactNames({ artifact_digest: `sha256:${hex}`, artifact_cid: `${cid}` })).toEqual([`sha256:${hex}`]);
  expect(artifactNames({ artifact_cid: `${structure}` })).toEqual([`cid:${structure}`]);
  const request = { artifact_digest: "sha512:x", artifact_merkle_root_cid: `${structure}` };
  expect(registeredNames(request, { artifact_cid: `${cid}` })).toEqual(["sha512:x", `sha256:${hex}`]);
});
