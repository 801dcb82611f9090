/** The leaf: what the log shows of a record to anyone. It names nobody and commits to everything. */
import type { RecordId } from "../../base/ids.ts";
import type { RecordKind } from "../ports/record.ts";
import { maxLeafBytes } from "../tlog/tiles.ts";
import { canonicalText } from "./canonical.ts";

/** Version of the leaf format. Leaves are never rewritten: another format gets another number. */
const leafVersion = 1;

/** A leaf's members. */
export interface Leaf {
  readonly v: number;
  readonly kind: RecordKind;
  readonly record_id: RecordId;
  /** RFC 3339 with milliseconds, UTC. */
  readonly recorded_at: string;
  /** Content address of what decided; decisions only. */
  readonly policy_revision?: string;
  /** `hmac-sha256:` and 64 hexadecimal digits; see `sealing.ts`. */
  readonly commitment: string;
}

/**
 * Canonical bytes (RFC 8785) of a leaf. Throws a RangeError when they are more than 65,535, which only a policy
 * revision of absurd length can cause.
 */
export function leafBytes(leaf: Omit<Leaf, "v">): Uint8Array {
  const { commitment, kind, policy_revision, record_id, recorded_at } = leaf;
  const text = canonicalText({ commitment, kind, policy_revision, record_id, recorded_at, v: leafVersion });
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length > maxLeafBytes)
    throw new RangeError(`The leaf has ${bytes.length} bytes, more than ${maxLeafBytes}.`);
  return bytes;
}

/** Reads a stored leaf. Throws when it is not of this format: a store that was damaged or written by a newer program. */
export function parseLeaf(bytes: Uint8Array): Leaf {
  const leaf = JSON.parse(Buffer.from(bytes).toString("utf8")) as Leaf;
  if (leaf.v !== leafVersion) throw new Error("The stored leaf is of an unknown version.");
  return leaf;
}
