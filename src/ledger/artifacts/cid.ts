/** Content identifiers (CID) of artifacts: https://github.com/multiformats/cid */
import { bases, CID, codecs, digest } from "multiformats/basics";
import { defined, orUndefined } from "../../base/json.ts";
import { type HashName, hashFunctionOf } from "./digest.ts";

/** All of multibase: an artifact that is not recognized in another spelling would look unregistered. */
const multibases = Object.values(bases);
const { raw } = codecs;

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
  return orUndefined(() => {
    const cid = cidOf(text);
    const { code, digest: hashed } = cid.multihash;
    const { hash, names } = hashFunctionOf(code) ?? {};
    return {
      isRaw: cid.version === 1 && cid.code === raw.code,
      hex: Buffer.from(hashed).toString("hex"),
      ...defined({ hash, algorithm: names?.[0] }),
    };
  });
}

/** Returns the same CID as version 1 in base32, for any spelling. Undefined if the text is not one. */
export function canonicalCid(text: string): string | undefined {
  return orUndefined(() => cidOf(text).toV1().toString());
}

/** Throws if the text is not a CID. */
function cidOf(text: string): CID {
  const base = multibases.find(({ prefix }) => text.startsWith(prefix));
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
  const multihash = digest.create(sha256Code, Buffer.from(sha256Hex, "hex"));
  return CID.createV1(raw.code, multihash).toString();
}
