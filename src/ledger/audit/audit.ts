/**
 * Walks a whole log, leaf by leaf, for its operator, and reports the first problem. Memory: one tile per level, and the
 * ids of erased records up to their erasure, for a log of any size.
 */
import { orUndefined, parseJson } from "../../base/json.ts";
import { plural } from "../../base/visible-text.ts";
import type { StoreArchive, StoredEntry } from "../ports/archive.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { LogState } from "../ports/store.ts";
import { type Leaf, parseLeaf } from "../record/leaf.ts";
import { ErasedRecords, type RotatedKeys, readFirstKey, readRotation, unerasable } from "../record/operator-records.ts";
import { readExactLeaf, readExactRecord, recordDisagreement } from "../record/receipt.ts";
import { open } from "../record/sealing.ts";
import { RightEdge, type WrittenTile } from "../tlog/right-edge.ts";
import { tileWidth } from "../tlog/tiles.ts";
import { type Hash, hashBytes, leafHash, sameHash } from "../tlog/tree.ts";

export interface Audit {
  readonly leaves: number;
  /** Leaves whose record was erased, according to later leaves; what they commit to cannot be checked. */
  readonly erased: number;
  readonly root: Hash;
  /** Retired keys, in order. */
  readonly rotations: readonly LogRotation[];
  /** The key in the genesis record. 32 bytes; undefined in logs from before it was recorded. */
  readonly firstKey: Uint8Array | undefined;
  readonly problem?: AuditProblem;
}

/** An earlier tree, known from outside. */
export interface EarlierTree {
  readonly size: number;
  readonly root: Hash;
  /** Its source, for messages. */
  readonly source: string;
}

/** Compares rows beside a log with its records during the walk. */
export interface RecordCheck {
  /** @param record undefined if it was erased */
  next?(entry: StoredEntry, leaf: Leaf, record: StoredRecord | undefined): Promise<void>;
  /** Called after the last leaf. */
  end?(): Promise<void>;
}

interface AuditOptions {
  readonly onProgress?: (leaves: number) => void;
  /** Trees that the log must extend. */
  readonly earlier?: readonly EarlierTree[];
  readonly checks?: readonly RecordCheck[];
}

/** Interval of `onProgress`, in leaves. */
const progressEvery = 4 * tileWidth;

type AuditedArchive = Pick<StoreArchive, "entries" | "storedTile">;

/**
 * Checks that indices have no gaps, that every leaf parses and no time goes back, that every record opens to what its
 * leaf commits to and agrees with it unless a later leaf erased it, and no erased record opens, that each key hands
 * over to the next, that every tile follows from the leaves, and so do the head's size and root.
 */
export async function auditLog(
  archive: AuditedArchive,
  head: LogState,
  { onProgress = () => {}, earlier = [], checks = [] }: AuditOptions = {},
): Promise<Audit> {
  const earlierBySize = Map.groupBy(earlier, ({ size }) => size);
  const edge = new RightEdge();
  const lost = new ErasedRecords<Lost>();
  let erased = 0;
  const keys = new RotationAudit();
  const found = () => ({
    leaves: edge.size,
    erased,
    root: edge.tree().root(),
    rotations: keys.rotations,
    firstKey: keys.firstKey,
  });
  try {
    checkEarlier(edge, earlierBySize.get(0));
    let previous: Leaf | undefined;
    for await (const entry of archive.entries(head, 0, Number.MAX_SAFE_INTEGER, "stored")) {
      if (entry.leafIndex !== edge.size && edge.size < head.size) fail(edge.size, "is missing");
      if (entry.leafIndex >= head.size) fail(entry.leafIndex, `is behind the head, which has ${head.size}`);
      const { leaf, record } = checkEntry(entry, head, previous);
      previous = leaf;
      erased += checkErasure(lost, entry, leaf, record);
      keys.next(entry.leafIndex, record);
      for (const check of checks) await check.next?.(entry, leaf, record);
      edge.append(leafHash(entry.leaf));
      checkEarlier(edge, earlierBySize.get(edge.size));
      if (edge.size % tileWidth === 0) await checkTiles(archive, head, edge.takeTouched());
      if (edge.size % progressEvery === 0) onProgress(edge.size);
    }
    for (const check of checks) await check.end?.();
    await checkTiles(archive, head, edge.takeTouched());
    checkHead(head, edge);
    checkLost(lost);
    const beyond = earlier.find(({ size }) => size > edge.size);
    if (beyond !== undefined)
      throw new Finding(
        `the log has ${edge.size} leaves, and had ${beyond.size} in ${beyond.source}: it is an older copy`,
      );
    return found();
  } catch (error) {
    if (!(error instanceof Finding)) throw error;
    return { ...found(), problem: error.problem };
  }
}

/** The leaf of a record that cannot be opened. */
type Lost = Pick<StoredEntry, "leafIndex">;

/** Returns the leaf, and its record if it has an opening. */
function checkEntry(entry: StoredEntry, head: LogState, previous: Leaf | undefined) {
  const { leafIndex } = entry;
  const leaf = readExactLeaf(entry.leaf) ?? fail(leafIndex, "is malformed");
  const expect = (holds: boolean, what: string) => {
    if (!holds) fail(leafIndex, what);
  };
  expect(leaf.record_id === entry.recordId, "is not of the record that it is stored with");
  expect(
    (leaf.kind === "genesis") === (leafIndex === 0),
    "is a genesis record in the wrong place, or the first leaf and not a genesis record",
  );
  expect(previous === undefined || leaf.recorded_at >= previous.recorded_at, "is older than the one before it");
  if (entry.opening === undefined) return { leaf, record: undefined };
  const { sealed, opening } = entry;
  const bytes =
    orUndefined(() => open(sealed, opening, leaf.commitment)) ?? fail(leafIndex, "does not open its record");
  const record = readExactRecord(bytes);
  const problem = record === undefined ? "is malformed" : recordDisagreement(record, leaf, head);
  if (problem !== undefined) throw new Finding(`the record of leaf ${leafIndex} ${problem}`, leafIndex);
  return { leaf, record };
}

function checkEarlier(edge: RightEdge, trees: readonly EarlierTree[] = []): void {
  for (const { size, root, source } of trees)
    if (!sameHash(edge.tree().root(), root))
      throw new Finding(`the first ${size} leaves are not those of ${source}: the log was changed, not only added to`);
}

async function checkTiles(archive: AuditedArchive, head: LogState, computed: readonly WrittenTile[]): Promise<void> {
  for (const { level, index, width, hashes } of computed) {
    const stored = await archive.storedTile(head, level, index);
    const leavesEach = tileWidth ** level;
    const first = index * tileWidth * leavesEach;
    const name = `tile ${index} of level ${level}`;
    if (stored === undefined) throw new Finding(`${name} is missing`, first);
    for (let position = 0; position < width; position++) {
      const at = [position * hashBytes, (position + 1) * hashBytes] as const;
      if (!sameHash(stored.subarray(...at), hashes.subarray(...at)))
        throw new Finding(
          `${name} is not what the leaves give, from leaf ${first + position * leavesEach}`,
          first + position * leavesEach,
        );
    }
    // It may have grown beyond the current leaf, up to the head.
    const finalWidth = Math.min(tileWidth, Math.floor(head.size / leavesEach) - index * tileWidth);
    if (stored.length > Math.max(width, finalWidth) * hashBytes) throw new Finding(`${name} is too long`, first);
  }
}

function checkHead(head: LogState, edge: RightEdge): void {
  if (head.size !== edge.size)
    throw new Finding(`the head says ${head.size} leaves; there are ${edge.size}`, edge.size);
  if (!sameHash(head.root, edge.tree().root())) throw new Finding("the head's root is not that of its leaves");
}

/**
 * Compares an entry with the erasures of the log: what cannot be opened needs one after it, and nothing else may have
 * one. Returns the number of records that it erases.
 */
function checkErasure(
  lost: ErasedRecords<Lost>,
  { leafIndex, recordId }: StoredEntry,
  { kind }: Leaf,
  record: StoredRecord | undefined,
): number {
  if (record === undefined) {
    if (unerasable[kind] !== undefined) fail(leafIndex, `of kind ${kind} cannot be opened, and is never erased`);
    if (!lost.add(recordId, { leafIndex })) fail(leafIndex, "has the id of another record that cannot be opened");
    return 0;
  }
  if (kind !== "erasure") return 0;
  const said = lost.erase(record);
  if (typeof said === "string") fail(leafIndex, said);
  if (said.isErased) return 1;
  return fail(said.leafIndex, `was erased by leaf ${leafIndex}, and can still be opened`);
}

/** Called after the last leaf. */
function checkLost({ first, size }: ErasedRecords<Lost>): void {
  if (first === undefined) return;
  const { leafIndex } = first;
  const lost = plural(size, "record");
  throw new Finding(`${lost} cannot be opened, and no leaf erased them: the first is leaf ${leafIndex}`, leafIndex);
}

// Checks the rotations of a log: each key hands over to the next, and the last one signs.

interface LogRotation extends RotatedKeys {
  /** Index of its leaf, which is the size of the largest tree that the old key alone may have signed. */
  readonly leafIndex: number;
}

export class RotationAudit {
  readonly rotations: LogRotation[] = [];
  /** Key in the genesis record; undefined in logs from before it was recorded. */
  firstKey: Uint8Array | undefined;

  /** Takes the record of the next leaf. Throws an Error that describes the problem. */
  next(leafIndex: number, record: StoredRecord | undefined): void {
    if (record?.kind === "genesis") {
      const firstKey = readFirstKey(record);
      if (firstKey === "malformed") throw new Finding("the genesis record names an invalid key", leafIndex);
      this.firstKey = firstKey;
    }
    if (record?.kind !== "key_rotation") return;
    const keys = readRotation(record) ?? fail(leafIndex, "does not name its keys");
    const last = this.rotations.at(-1);
    if (last === undefined && this.firstKey !== undefined && !sameHash(this.firstKey, keys.previous))
      fail(leafIndex, "retires another key than the one that the genesis record names");
    if (last !== undefined && !sameHash(last.current, keys.previous))
      fail(leafIndex, `retires another key than the one that leaf ${last.leafIndex} brought`);
    this.rotations.push({ leafIndex, ...keys });
  }
}

/** Finds the rotations of a log by its leaves, and checks nothing else. Throws if one cannot be read. */
export async function findRotations(entries: AsyncIterable<StoredEntry>): Promise<readonly LogRotation[]> {
  const audit = new RotationAudit();
  for await (const { leafIndex, leaf, sealed, opening } of entries) {
    const { kind, commitment } = parseLeaf(leaf);
    if (kind !== "key_rotation") continue;
    if (opening === undefined) throw new Error(`leaf ${leafIndex} of kind key_rotation cannot be opened`);
    const record = parseJson(Buffer.from(open(sealed, opening, commitment)).toString("utf8")) as StoredRecord;
    audit.next(leafIndex, record);
  }
  return audit.rotations;
}

/**
 * Compares the rotations of a log with the keys that have signed the store's logs, up to the key that this log was
 * rotated to; undefined if the store does not have that key. A log that was opened later begins with a later key. Returns
 * the problem.
 */
export function rotationProblem(
  { rotations, firstKey }: { readonly rotations: readonly LogRotation[]; readonly firstKey?: Uint8Array | undefined },
  signingKeys: readonly Uint8Array[] | undefined,
): AuditProblem | undefined {
  if (signingKeys === undefined) return { message: "the head names a signing key that the store does not have" };
  // The rotation of a log to the newest key may be pending.
  if (firstKey !== undefined && !signingKeys.some((key) => sameHash(key, firstKey)))
    return { leafIndex: 0, message: "the genesis record names a key that never signed for this store" };
  const newest = signingKeys.at(-1);
  if (firstKey !== undefined && newest !== undefined && rotations.length === 0 && !sameHash(newest, firstKey))
    return { leafIndex: 0, message: "no leaf hands over from the key of the genesis record to the one that signs" };
  const first = signingKeys.length - 1 - rotations.length;
  const wrong = rotations.find(({ current, previous }, position) => {
    const [from, to] = [signingKeys[first + position], signingKeys[first + position + 1]];
    return from === undefined || to === undefined || !sameHash(from, previous) || !sameHash(to, current);
  });
  if (wrong === undefined) return undefined;
  const { leafIndex } = wrong;
  return { leafIndex, message: `leaf ${leafIndex} hands over to a key that is not the next one of the store` };
}

// A problem that an audit found.

export interface AuditProblem {
  /** Index of the first wrong leaf, or of the first leaf of a wrong tile; undefined for the whole log. */
  readonly leafIndex?: number;
  readonly message: string;
}

/** Ends a walk with a problem. */
class Finding extends Error {
  readonly problem: AuditProblem;
  constructor(message: string, leafIndex?: number) {
    super(message);
    this.problem = { message, ...(leafIndex !== undefined && { leafIndex }) };
  }
}

/** Ends the walk with a problem of one leaf. */
function fail(leafIndex: number, what: string): never {
  throw new Finding(`leaf ${leafIndex} ${what}`, leafIndex);
}
