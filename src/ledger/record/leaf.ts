/** The leaf: the public part of a record in the log. It names no person and commits to the whole record. */

import type { RecordId } from "../../base/ids.ts";
import { parseJson } from "../../base/json.ts";
import type { RecordKind } from "../ports/record.ts";
import { maxLeafBytes } from "../tlog/tiles.ts";
import { canonicalText } from "./canonical.ts";

/** Version of the leaf format. Leaves are never rewritten: a new format gets a new number. */
const leafVersion = 1;

export interface Leaf {
  readonly v: number;
  readonly kind: RecordKind;
  readonly record_id: RecordId;
  /** RFC 3339 with milliseconds, UTC. */
  readonly recorded_at: string;
  /** Content address of the policy revision; decisions only. */
  readonly policy_revision?: string;
  /** `hmac-sha256:` and 64 hexadecimal digits; see `sealing.ts`. */
  readonly commitment: string;
}

/** Canonical bytes (RFC 8785) of a leaf. Throws a RangeError above 65,535 bytes. */
export function leafBytes(leaf: Omit<Leaf, "v">): Uint8Array {
  const { commitment, kind, policy_revision, record_id, recorded_at } = leaf;
  const text = canonicalText({ commitment, kind, policy_revision, record_id, recorded_at, v: leafVersion });
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length > maxLeafBytes)
    throw new RangeError(`The leaf has ${bytes.length} bytes, more than ${maxLeafBytes}.`);
  return bytes;
}

/** Parses a stored leaf. Throws if it has another format, because the store is damaged or from a newer version. */
export function parseLeaf(bytes: Uint8Array): Leaf {
  const leaf = parseJson(Buffer.from(bytes).toString("utf8")) as Leaf;
  if (leaf.v !== leafVersion) throw new Error("The stored leaf is of an unknown version.");
  return leaf;
}
