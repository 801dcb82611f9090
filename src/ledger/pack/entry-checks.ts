/** Checks of a pack's entries: each by itself, against the selection, and against what records state about the log. */
import { orUndefined } from "../../base/json.ts";
import { parseBase64 } from "../../base/text-forms.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { Leaf } from "../record/leaf.ts";
import { type ErasedRecords, readRotation, unerasable } from "../record/operator-records.ts";
import { type RecordOwner, readExactLeaf, readExactRecord, recordDisagreement } from "../record/receipt.ts";
import { openingBytes, verifyCommitment } from "../record/sealing.ts";
import { hasTerms, searchTermsOf } from "../search/search-terms.ts";
import { openCheckpoint } from "../tlog/checkpoint.ts";
import { ed25519Type, formatVerifierKey, keyIdOf, parseVerifierKey } from "../tlog/note-keys.ts";
import { hasEnds, isLinked, type PackEntry, PackError, refuse, type TimeRange, type ValueSelection } from "./format.ts";

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

/** Checks an entry by itself. Throws a PackError that names the line. */
export function checkEntry(entry: PackEntry, line: number, owner: RecordOwner): CheckedEntry {
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
  const problem = recordDisagreement(record, leaf, owner);
  if (problem !== undefined) refuse(line, `the record of ${name} ${problem}`);
  return { ...checked, record };
}

// Checks that each entry matches a selection by value. A pack cannot prove that one complete, but it proves how many
// leaves a time range has, and shows how many of them it has.

/** Most records of a linked selection, which are kept in memory until the end. */
export const maxLinkedRecords = 100_000;

/** The decision that a record is or cites. */
export function decisionOf(record: StoredRecord): string | undefined {
  return searchTermsOf(record).find(({ field }) => field === "decision_id")?.value;
}

/** The leaves of the time range of a selection by value. */
export interface PartOfRange extends CompleteRange {
  /** Those of them that the pack shows, or declares erased. The others may be of the selection, too. */
  readonly shown: number;
}

/**
 * Checks that each record is of the selection, or linked to it. A leaf may be shown for its position and time alone if
 * it is beside an end of the time range, or the log's last: of the leaves on both sides of an end, both must be there.
 */
export function itemCheck(selection: ValueSelection, size: number) {
  const { field, value, from, to } = selection;
  let newest = -1;
  /** Of the newest entry. */
  let newestPlace: "before" | "within" | "after" = from === undefined ? "within" : "before";
  /** The newest entry, if it shows nothing and must be beside an end, or the log's last. */
  let bare: CheckedEntry | undefined;
  /** Index of the first leaf of the range, and of the first leaf after it. */
  let first = from === undefined ? 0 : undefined;
  let after: number | undefined;
  let shown = 0;
  /** Entries that belong to the selection only if their decision does. */
  const linked: { readonly line: number; readonly leafIndex: number; readonly decision: string | undefined }[] = [];
  /** Decisions that the selected records are or cite. */
  const decisions = new Set(field === "decision_id" ? [value] : []);

  /** Where the entry is in the time range. Throws a PackError if the leaf beside it is missing. */
  function locate(entry: CheckedEntry): "before" | "within" | "after" {
    const { line, leafIndex, leaf, record, erased } = entry;
    const isBefore = from !== undefined && leaf.recorded_at < from;
    // Times never go back within a log, so neither do places.
    const place = to !== undefined && leaf.recorded_at >= to ? "after" : isBefore ? "before" : "within";
    const isFirst = place !== newestPlace;
    if (isFirst && leafIndex !== newest + 1)
      refuse(line, `leaf ${leafIndex - 1} is left out: the time range may begin or end before leaf ${leafIndex}`);
    if (!isFirst && bare !== undefined) refuse(bare.line, `leaf ${bare.leafIndex} shows nothing`);
    if (isFirst && place === "within") first = leafIndex;
    if (isFirst && place === "after") after = leafIndex;
    bare = isFirst || record !== undefined || erased ? undefined : entry;
    newest = leafIndex;
    newestPlace = place;
    return place;
  }

  return {
    /** Takes the next entry; `erases` if it erases a record that the pack declared erased. Throws a PackError. */
    next(entry: CheckedEntry, erases: boolean): void {
      const { line, leafIndex, leaf, record, erased } = entry;
      const isWithin = locate(entry) === "within";
      if (record === undefined && !erased) return;
      if (isWithin) shown += 1;
      const decision = record === undefined ? leaf.record_id : decisionOf(record);
      if (record !== undefined && isWithin && hasTerms(record, [selection])) {
        if (decision !== undefined && isLinked(selection)) decisions.add(decision);
      } else if (!erases) {
        linked.push({ line, leafIndex, decision });
      }
      if (Math.max(linked.length, decisions.size) > maxLinkedRecords)
        refuse(line, `more than ${maxLinkedRecords} records are linked`);
    },
    /**
     * Returns the result after the log's last leaf; undefined for a selection of all time. Throws a PackError if an entry
     * does not belong to the selection.
     */
    end(): PartOfRange | undefined {
      for (const { line, leafIndex, decision } of linked)
        if (decision === undefined || !decisions.has(decision))
          throw new PackError(`line ${line}: the record of leaf ${leafIndex} is not of the selection`);
      if (!hasEnds(selection)) return undefined;
      const leaves = first === undefined ? 0 : (after ?? size) - first;
      return { firstLeafIndex: leaves === 0 ? undefined : first, leaves, shown, closed: after !== undefined };
    },
  };
}

// Checks whether a pack has everything of a time range.

/** The leaves of a complete range. */
export interface CompleteRange {
  /** Index of its first leaf; undefined if it has none. */
  readonly firstLeafIndex: number | undefined;
  readonly leaves: number;
  /** Whether a leaf after the range is shown. If not, the log may still get records of that time. */
  readonly closed: boolean;
}

/**
 * Checks that the leaves of the range have no gap, each with its record or erased; that the leaf to their left, unless
 * they begin the log, is older than the range; and that the one to their right, unless they end it, is younger. Times
 * never go back within a log, so no other leaf is in the range. Everything after the right neighbour must be the last
 * leaf or an erasure of a shown record.
 */
export function rangeCheck({ from, to }: TimeRange, size: number) {
  /** Index of the newest entry up to the right neighbour. */
  let newest: number | undefined;
  let firstLeafIndex: number | undefined;
  let leaves = 0;
  let closed = false;
  return {
    /** Takes the next entry; `erases` if it erases a record that the pack declared erased. Throws a PackError. */
    next({ line, leafIndex, leaf, record, erased }: CheckedEntry, erases: boolean): void {
      const isBefore = from !== undefined && leaf.recorded_at < from;
      const isAfter = to !== undefined && leaf.recorded_at >= to;
      const due = (newest ?? -1) + 1;
      if (isBefore && newest !== undefined) refuse(line, `leaf ${leafIndex} is one too many before the range`);
      if (!isBefore && !closed && leafIndex !== due) refuse(line, `leaf ${due} is left out`);
      newest = leafIndex;
      if (isBefore || isAfter) {
        if (erased || (record !== undefined && !erases))
          refuse(line, `the record of leaf ${leafIndex} is not of the range`);
        const isNeeded = !closed || erases || leafIndex === size - 1;
        if (!isNeeded) refuse(line, `leaf ${leafIndex} is not of the range`);
        closed ||= isAfter;
        return;
      }
      if (record === undefined && !erased)
        refuse(line, `leaf ${leafIndex} is of the range, and its record is left out`);
      firstLeafIndex ??= leafIndex;
      leaves += 1;
    },
    /** Returns the result after the log's last leaf. */
    end: (): CompleteRange => ({ firstLeafIndex, leaves, closed }),
  };
}

// Checks of what a pack's records state about the log: erased records and retired keys.

/** Most erased records that may wait for their erasure. */
const maxClaims = 100_000;

/** Takes the next entry. Returns whether it erases a record that the pack declared erased. Throws a PackError. */
export function checkErasure(claims: ErasedRecords<CheckedEntry>, entry: CheckedEntry): boolean {
  const { line, leaf, leafIndex, record, erased } = entry;
  if (erased && !claims.add(leaf.record_id, entry))
    refuse(line, `leaf ${leafIndex} has the id of another erased record`);
  if (claims.size > maxClaims) refuse(line, `more than ${maxClaims} erased records are without their erasure`);
  if (record?.kind !== "erasure") return false;
  const said = claims.erase(record);
  return typeof said === "string" ? refuse(line, `leaf ${leafIndex} ${said}`) : said.isErased;
}

/** Throws a PackError if a record was declared erased without showing its erasure. */
export function checkClaims({ first }: ErasedRecords<CheckedEntry>): void {
  if (first !== undefined)
    refuse(first.line, `leaf ${first.leafIndex} is said to be erased, and no erasure of it is shown`);
}

/**
 * Checks that a checkpoint with this rotation was signed by the new key, if the old one signed it: after its rotation an
 * old key counts only beside the new one, also if the trusted key is older than both. Throws a PackError. A stolen old key
 * can sign a tree without the rotation, which no pack can show: verifiers that know of the rotation must not trust the old
 * key for later trees.
 */
export function checkRotation({ line, leafIndex, record }: CheckedEntry, origin: string, note: string): void {
  if (record?.kind !== "key_rotation") return;
  const keys = readRotation(record);
  if (keys === undefined) refuse(line, `leaf ${leafIndex} does not name its keys`);
  else if (isSignedBy(note, origin, keys.previous) && !isSignedBy(note, origin, keys.current)) {
    const previous = keyIdOf(origin, keys.previous, ed25519Type);
    refuse(line, `leaf ${leafIndex} replaced the key ${previous}, which signed alone`);
  }
}

function isSignedBy(note: string, origin: string, publicKey: Uint8Array): boolean {
  const verifier = parseVerifierKey(formatVerifierKey(origin, publicKey));
  return verifier !== undefined && orUndefined(() => openCheckpoint(note, verifier))?.origin === origin;
}
