/** Content identifiers (CID) of artifacts: https://github.com/multiformats/cid */
import * as base2 from "multiformats/bases/base2";
import * as base8 from "multiformats/bases/base8";
import * as base10 from "multiformats/bases/base10";
import * as base16 from "multiformats/bases/base16";
import * as base32 from "multiformats/bases/base32";
import * as base36 from "multiformats/bases/base36";
import * as base58 from "multiformats/bases/base58";
import * as base64 from "multiformats/bases/base64";
import * as base256emoji from "multiformats/bases/base256emoji";
import { CID } from "multiformats/cid";
import * as raw from "multiformats/codecs/raw";
import { create as createMultihash } from "multiformats/hashes/digest";
import { defined } from "../../base/json.ts";
import { type HashName, hashFunctionOf } from "./digest.ts";

/** All of multibase: an artifact that is not recognized in another spelling would look unregistered. */
const bases = [base2, base8, base10, base16, base32, base36, base58, base64, base256emoji].flatMap((each) =>
  Object.values(each),
);

const sha256Code = 0x12;

interface CidHash {
  /** Whether it is a CIDv1 of codec raw, which identifies the bytes and not a structure over them. */
  readonly isRaw: boolean;
  /** Absent if it is not supported. */
  readonly hash?: HashName;
  /** The hash function's name in digests; absent if it is unknown. */
  readonly algorithm?: string;
  /** Lowercase hexadecimal. */
  readonly hex: string;
}

/** Parses a CID of version 0 or 1. Undefined if the text is not one. */
export function parseCid(text: string): CidHash | undefined {
  try {
    const cid = cidOf(text);
    const { code, digest } = cid.multihash;
    const { hash, names } = hashFunctionOf(code) ?? {};
    return {
      isRaw: cid.version === 1 && cid.code === raw.code,
      hex: Buffer.from(digest).toString("hex"),
      ...defined({ hash, algorithm: names?.[0] }),
    };
  } catch {
    return undefined;
  }
}

/** Returns the same CID as version 1 in base32, for any spelling. Undefined if the text is not one. */
export function canonicalCid(text: string): string | undefined {
  try {
    return cidOf(text).toV1().toString();
  } catch {
    return undefined;
  }
}

/** Throws if the text is not a CID. */
function cidOf(text: string): CID {
  const base = bases.find(({ prefix }) => text.startsWith(prefix));
  // Version 0 is always base58btc without a prefix.
  if (base === undefined) return CID.parse(text);
  const cid = CID.decode(base.decode(text));
  if (cid.version === 0) throw new RangeError("a CID of version 0 has no prefix");
  return cid;
}

/**
 * The CIDv1 (codec raw, sha2-256, base32) of bytes.
 *
 * @param sha256Hex their SHA-256 in hexadecimal
 */
export function rawCid(sha256Hex: string): string {
  const multihash = createMultihash(sha256Code, Buffer.from(sha256Hex, "hex"));
  return CID.createV1(raw.code, multihash).toString();
}
