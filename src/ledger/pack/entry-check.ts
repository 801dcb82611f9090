/** Whether an entry's leaf, opening and record belong together. What it says is not looked at here. */

import { assertCanonical, canonicalText } from "../canonical.ts";
import { unerasable } from "../erasure.ts";
import { type Leaf, leafBytes, parseLeaf } from "../leaf.ts";
import type { StoredRecord } from "../ports.ts";
import { requestDigest } from "../record.ts";
import { openingBytes, verifyCommitment } from "../sealing.ts";
import { parseBase64 } from "../text-forms.ts";
import type { PackEntry } from "./format.ts";
import { refuse } from "./problem.ts";
import { isMoment } from "./selection.ts";

/** An entry whose record is the one that its leaf commits to. Its leaf's place is proven when the whole pack is. */
export interface CheckedEntry {
  /** Line of the pack, from 1. */
  readonly line: number;
  readonly leafIndex: number;
  readonly leaf: Leaf;
  /** Exact bytes of the leaf. */
  readonly leafBytes: Uint8Array;
  /** Undefined where it was erased, and where the leaf is shown for its place or time alone. */
  readonly record: StoredRecord | undefined;
  readonly erased: boolean;
}

/** Whose records a pack may hold. */
export interface PackOwner {
  readonly origin: string;
  readonly tenantId: string;
}

/** Checks an entry by itself. Throws a PackError that names the line. */
export function checkEntry(entry: PackEntry, line: number, owner: PackOwner): CheckedEntry {
  const { leaf_index: leafIndex, opening, record: recordText, erased = false } = entry;
  const name = `leaf ${leafIndex}`;
  const bytes = Buffer.from(entry.leaf, "utf8");
  const leaf = readLeaf(bytes) ?? refuse(line, `${name} is malformed`);
  if ((leaf.kind === "genesis") !== (leafIndex === 0)) refuse(line, `${name} cannot be of kind ${leaf.kind}`);
  if ((opening === undefined) !== (recordText === undefined)) refuse(line, `${name} has a record or an opening alone`);
  if (erased && recordText !== undefined) refuse(line, `${name} is said to be erased, and has a record`);
  if (erased && unerasable[leaf.kind] !== undefined) refuse(line, `${name} is of a kind that is never erased`);
  const checked = { line, leafIndex, leaf, leafBytes: bytes, erased };
  if (recordText === undefined || opening === undefined) return { ...checked, record: undefined };
  const openingOf = parseBase64(opening);
  const commits =
    openingOf?.length === openingBytes && verifyCommitment(Buffer.from(recordText, "utf8"), openingOf, leaf.commitment);
  if (!commits) refuse(line, `${name} does not commit to its record`);
  const record = readRecord(recordText) ?? refuse(line, `the record of ${name} is malformed`);
  const problem = disagreement(record, leaf, owner);
  if (problem !== undefined) refuse(line, `the record of ${name} ${problem}`);
  return { ...checked, record };
}

function readLeaf(bytes: Uint8Array): Leaf | undefined {
  return orUndefined(() => {
    const leaf = parseLeaf(bytes);
    // What is written again must be what was read: no member more or less, and no other text of it.
    return Buffer.compare(leafBytes(leaf), bytes) === 0 && isMoment(leaf.recorded_at) ? leaf : undefined;
  });
}

function readRecord(text: string): StoredRecord | undefined {
  return orUndefined(() => {
    const record = JSON.parse(text) as StoredRecord;
    assertCanonical(record);
    const { caller, request, outcome } = record;
    const isRecord = [record, caller, request, outcome].every((value) => typeof value === "object" && value !== null);
    return isRecord && canonicalText({ ...record }) === text ? record : undefined;
  });
}

function disagreement(record: StoredRecord, leaf: Leaf, owner: PackOwner): string | undefined {
  if (record.tenant_id !== owner.tenantId) return "is of another tenant";
  if (record.log !== owner.origin) return "is of another log";
  for (const member of ["record_id", "kind", "recorded_at"] as const)
    if (record[member] !== leaf[member]) return `has another ${member} than its leaf`;
  const { policy_revision: revision } = record.outcome;
  if (record.kind === "decision" && revision !== undefined && revision !== leaf.policy_revision)
    return "has another policy_revision than its leaf";
  return record.request_digest === requestDigest(record.request) ? undefined : "has another request than its digest";
}

function orUndefined<Value>(read: () => Value | undefined): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
