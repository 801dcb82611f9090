/** Checks that an entry's leaf, opening and record belong together. Does not check what the record states. */
import { parseBase64 } from "../../base/text-forms.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { Leaf } from "../record/leaf.ts";
import { unerasable } from "../record/operator-records.ts";
import { readExactLeaf, readExactRecord, recordDisagreement } from "../record/record-check.ts";
import { openingBytes, verifyCommitment } from "../record/sealing.ts";
import { type PackEntry, refuse } from "./format.ts";

/** An entry whose leaf commits to its record. The leaf's position is proven with the whole pack. */
export interface CheckedEntry {
  /** Line of the pack, from 1. */
  readonly line: number;
  readonly leafIndex: number;
  readonly leaf: Leaf;
  /** Exact bytes of the leaf. */
  readonly leafBytes: Uint8Array;
  /** Undefined if it was erased, or if the leaf is shown for its position or time alone. */
  readonly record: StoredRecord | undefined;
  readonly erased: boolean;
}

/** The log and tenant that a pack's records must have. */
export interface PackOwner {
  readonly origin: string;
  readonly tenantId: string;
}

/** Checks an entry by itself. Throws a PackError that names the line. */
export function checkEntry(entry: PackEntry, line: number, owner: PackOwner): CheckedEntry {
  const { leaf_index: leafIndex, opening, record: recordText, erased = false } = entry;
  const name = `leaf ${leafIndex}`;
  const bytes = Buffer.from(entry.leaf, "utf8");
  const leaf = readExactLeaf(bytes) ?? refuse(line, `${name} is malformed`);
  if ((leaf.kind === "genesis") !== (leafIndex === 0)) refuse(line, `${name} cannot be of kind ${leaf.kind}`);
  if ((opening === undefined) !== (recordText === undefined)) refuse(line, `${name} has a record or an opening alone`);
  if (erased && recordText !== undefined) refuse(line, `${name} is said to be erased, and has a record`);
  if (erased && unerasable[leaf.kind] !== undefined) refuse(line, `${name} is of a kind that is never erased`);
  const checked = { line, leafIndex, leaf, leafBytes: bytes, erased };
  if (recordText === undefined || opening === undefined) return { ...checked, record: undefined };
  const openingOf = parseBase64(opening);
  const recordBytes = Buffer.from(recordText, "utf8");
  const commits = openingOf?.length === openingBytes && verifyCommitment(recordBytes, openingOf, leaf.commitment);
  if (!commits) refuse(line, `${name} does not commit to its record`);
  const record = readExactRecord(recordBytes) ?? refuse(line, `the record of ${name} is malformed`);
  const problem = foreign(record, owner) ?? recordDisagreement(record, leaf);
  if (problem !== undefined) refuse(line, `the record of ${name} ${problem}`);
  return { ...checked, record };
}

function foreign({ tenant_id: tenantId, log }: StoredRecord, owner: PackOwner): string | undefined {
  if (tenantId !== owner.tenantId) return "is of another tenant";
  return log === owner.origin ? undefined : "is of another log";
}
