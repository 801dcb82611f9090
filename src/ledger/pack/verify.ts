/** Verifies a pack line by line, from its bytes and the trusted keys alone. */
import { createHash } from "node:crypto";
import { parseTenantId, type TenantId } from "../../base/ids.ts";
import { contentAddress, isMoment, parseBase64 } from "../../base/text-forms.ts";
import { ErasedRecords } from "../record/operator-records.ts";
import type { Checkpoint, LogVerifier } from "../tlog/checkpoint.ts";
import { NoteError } from "../tlog/note.ts";
import { hashBytes, leafHash, sameHash } from "../tlog/tree.ts";
import { openWithAny } from "../tlog/trusted-key.ts";
import {
  type CheckedEntry,
  type CompleteRange,
  checkClaims,
  checkEntry,
  checkErasure,
  checkRotation,
  itemCheck,
  type PartOfRange,
  rangeCheck,
} from "./entry-checks.ts";
import {
  isOfValue,
  linesOf,
  maxLineBytes,
  type NumberedLine,
  type PackEnd,
  type PackEntry,
  PackError,
  type PackHeader,
  type PackPolicy,
  type PackSelection,
  parseLine,
  parseSelection,
  refuse,
} from "./format.ts";
import { GrowingTree, subtreesBetween } from "./subtrees.ts";

/** What a verified pack proves, besides its entries. */
export interface VerifiedPack {
  readonly checkpoint: Checkpoint;
  /** The signed checkpoint; only the trusted key's signature was checked. */
  readonly note: string;
  /** The trusted key that signed it. */
  readonly verifier: LogVerifier;
  readonly tenantId: TenantId;
  readonly selection: PackSelection;
  /** RFC 3339; not proven. */
  readonly madeAt: string;
  /** Time of the log's last leaf. RFC 3339, by the service's clock. */
  readonly newestRecordedAt: string;
  readonly entries: number;
  /** For a time range; undefined for other selections, whose completeness only the whole log can show. */
  readonly range: CompleteRange | undefined;
  /** For a selection by value of a time range; undefined for others. */
  readonly part: PartOfRange | undefined;
  /** Revisions that decided, and whether their content is in the pack. */
  readonly policies: ReadonlyMap<string, boolean>;
}

/**
 * Verifies a pack. Calls `onEntry` for each entry in the order of the log; nothing of it is proven until the promise
 * resolves. Memory is constant, except for 100 bytes for each decision of a linked selection, and for each erased
 * record until its erasure.
 *
 * Rejects with a PackError that names the line. Does not show that records are true, that the log has not grown since,
 * nor that others are shown the same log.
 *
 * @param keys trusted keys of the log, retired ones included; never taken from the pack
 */
export async function verifyPack(
  chunks: AsyncIterable<Uint8Array>,
  keys: readonly LogVerifier[],
  onEntry: (entry: CheckedEntry) => void = () => {},
): Promise<VerifiedPack> {
  const digest = createHash("sha256");
  let body: ReturnType<typeof packBody> | undefined;
  let verified: VerifiedPack | undefined;
  for await (const line of linesOf(chunks, maxLineBytes)) {
    if (verified !== undefined) refuse(line.number, "comes after the end");
    const parsed = atLine(line, () => parseLine(line.text));
    if (parsed.type === "header") {
      if (body !== undefined) refuse(line.number, "is a second header");
      body = atLine(line, () => packBody(parsed, keys));
    } else if (body === undefined) {
      refuse(line.number, "is not the header");
    } else if (parsed.type === "end") {
      if (parsed.sha256 !== digest.digest("hex")) refuse(line.number, "the pack was changed: its sha256 is another");
      verified = body.end(parsed, line.number);
      continue;
    } else if (parsed.type === "policy") body.policy(parsed, line.number);
    else onEntry(body.entry(parsed, line.number));
    digest.update(line.bytes).update("\n");
  }
  if (verified === undefined) throw new PackError("the pack is cut off: it has no end");
  return verified;
}

function atLine<Value>({ number }: Pick<NumberedLine, "number">, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (error instanceof PackError || error instanceof NoteError) refuse(number, error.message);
    throw error;
  }
}

/** Everything between header and end. Throws a PackError or a NoteError. */
function packBody(header: PackHeader, keys: readonly LogVerifier[]) {
  const { checkpoint: note, made_at: madeAt } = header;
  const { checkpoint, verifier } = openWithAny(note, keys);
  const { origin, size, root } = checkpoint;
  const tenantId = parseTenantId(header.tenant_id);
  const selection = parseSelection(header.selection);
  if (tenantId === undefined || selection === undefined || !isMoment(madeAt))
    throw new PackError("the header is malformed");
  const owner = { origin, tenantId };
  const items = isOfValue(selection) ? itemCheck(selection, size) : undefined;
  const range = isOfValue(selection) ? undefined : rangeCheck(selection, size);
  const claims = new ErasedRecords<CheckedEntry>();
  const tree = new GrowingTree();
  const policies = new Map<string, boolean>();
  /** The revision that the next entry must have. */
  let announced: string | undefined;
  let newest: CheckedEntry | undefined;
  let entries = 0;

  function checkPolicy({ line, leafIndex, leaf, record, erased }: CheckedEntry): void {
    const revision = record === undefined && !erased ? undefined : leaf.policy_revision;
    if (announced !== undefined && announced !== revision)
      refuse(line, `leaf ${leafIndex} was not decided by the policy revision before it`);
    if (revision !== undefined && !policies.has(revision))
      refuse(line, `the policy revision of leaf ${leafIndex} is not shown`);
    announced = undefined;
  }

  /** Adds the subtrees between the previous entry and this one. */
  function place(gap: readonly string[], leafIndex: number, line: number): void {
    const subtrees = [...subtreesBetween(tree.size, leafIndex)];
    if (subtrees.length !== gap.length)
      refuse(line, `the gap before leaf ${leafIndex} takes ${subtrees.length} hashes`);
    for (const [position, { height }] of subtrees.entries()) {
      const hash = parseBase64(gap[position] ?? "");
      if (hash?.length !== hashBytes) refuse(line, `a hash of the gap before leaf ${leafIndex} is malformed`);
      else tree.append(hash, height);
    }
  }

  return {
    policy({ revision, content }: PackPolicy, line: number): void {
      if (announced !== undefined) refuse(line, `the policy revision before it, ${announced}, decided nothing`);
      if (policies.has(revision)) refuse(line, `the policy revision ${revision} appears twice`);
      if (content !== undefined && contentAddress(content) !== revision)
        refuse(line, `the policy text is not that of revision ${revision}`);
      policies.set(revision, content !== undefined);
      announced = revision;
    },
    entry(entry: PackEntry, line: number): CheckedEntry {
      const { leaf_index: leafIndex } = entry;
      if (leafIndex < tree.size) refuse(line, `leaf ${leafIndex} is out of order, or appears twice`);
      if (leafIndex >= size) refuse(line, `leaf ${leafIndex} is not in the tree of ${size} leaves`);
      const checked = checkEntry(entry, line, owner);
      if (newest !== undefined && checked.leaf.recorded_at < newest.leaf.recorded_at)
        refuse(line, `leaf ${leafIndex} is older than the one before it`);
      checkPolicy(checked);
      checkRotation(checked, origin, note);
      const erases = checkErasure(claims, checked);
      range?.next(checked, erases);
      items?.next(checked, erases);
      place(entry.gap ?? [], leafIndex, line);
      tree.append(leafHash(checked.leafBytes));
      newest = checked;
      entries += 1;
      return checked;
    },
    end(end: PackEnd, line: number): VerifiedPack {
      if (announced !== undefined) refuse(line, `the policy revision ${announced} decided nothing`);
      if (end.entries !== entries) refuse(line, `there are ${entries} entries, not ${end.entries}`);
      if (newest === undefined || tree.size !== size) return refuse(line, "the log's last leaf is not shown");
      if (!sameHash(tree.root(), root)) refuse(line, "the entries are not the log's: they lead to another root");
      checkClaims(claims);
      const newestRecordedAt = newest.leaf.recorded_at;
      const proven = { checkpoint, note, verifier, tenantId, selection, madeAt, newestRecordedAt, entries, policies };
      return { ...proven, range: range?.end(), part: items?.end() };
    },
  };
}
