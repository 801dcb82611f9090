/** Content identifiers (CID) of artifacts: https://github.com/multiformats/cid */
import { base16 } from "multiformats/bases/base16";
import { base32, base32upper } from "multiformats/bases/base32";
import { base36 } from "multiformats/bases/base36";
import { base58btc } from "multiformats/bases/base58";
import { base64url } from "multiformats/bases/base64";
import { CID } from "multiformats/cid";
import * as raw from "multiformats/codecs/raw";
import { create as createMultihash } from "multiformats/hashes/digest";
import type { HashName } from "./digest.ts";

const decoder = base32.decoder
  .or(base32upper.decoder)
  .or(base58btc.decoder)
  .or(base36.decoder)
  .or(base16.decoder)
  .or(base64url.decoder);

const sha256Code = 0x12;

/** Multihash codes of the multicodec table that can be computed here. */
const hashes: ReadonlyMap<number, HashName> = new Map([
  [0xd5, "md5"],
  [0x11, "sha1"],
  [0x1013, "sha224"],
  [sha256Code, "sha256"],
  [0x20, "sha384"],
  [0x13, "sha512"],
  [0x1015, "sha512-256"],
  [0x17, "sha3-224"],
  [0x16, "sha3-256"],
  [0x15, "sha3-384"],
  [0x14, "sha3-512"],
  [0xb240, "blake2b512"],
  [0xb260, "blake2s256"],
]);

/** What a CID says of the bytes that it names. */
export interface CidHash {
  /** Whether it is a CIDv1 of codec raw: one that names the bytes themselves, and not a structure over them. */
  readonly isRaw: boolean;
  /** Absent where it cannot be computed here. */
  readonly hash?: HashName;
  /** Lowercase hexadecimal. */
  readonly hex: string;
}

/** Reads a CID of version 0 or 1. Returns undefined where the text is none. */
export function parseCid(text: string): CidHash | undefined {
  try {
    const cid = CID.parse(text, decoder);
    const { code, digest } = cid.multihash;
    const hash = hashes.get(code);
    return {
      isRaw: cid.version === 1 && cid.code === raw.code,
      hex: Buffer.from(digest).toString("hex"),
      ...(hash !== undefined && { hash }),
    };
  } catch {
    return undefined;
  }
}

/** The same CID as version 1 in base32, whichever way it is spelled. Returns undefined where the text is none. */
export function canonicalCid(text: string): string | undefined {
  try {
    return CID.parse(text, decoder).toV1().toString();
  } catch {
    return undefined;
  }
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
