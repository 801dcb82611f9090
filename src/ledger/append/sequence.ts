/** Assigns leaf indices and times, and seals records. Pure: the store calls it under the lock of the log's head. */
import { v7 } from "uuid";
import type { RecordId } from "../../base/ids.ts";
import { artifactKeyBytes } from "../artifacts/registration-index.ts";
import type { RecordKind } from "../ports/record.ts";
import { leafBytes } from "../record/leaf.ts";
import { type EncodedRecord, genesisRecordBytes, type LogPosition, recordBytes } from "../record/record.ts";
import { openingBytes, seal } from "../record/sealing.ts";
import { searchKeyBytes } from "../search/search-index.ts";
import { type Hash, leafHash } from "../tlog/tree.ts";

/** The newest state of a log. */
export interface LogHead {
  readonly origin: string;
  /** Number of leaves. */
  readonly size: number;
  /** Milliseconds since the Unix epoch. */
  readonly lastRecordedAtMs: number;
}

/** One row of a log, ready to be stored. */
export interface SealedEntry {
  readonly leafIndex: number;
  readonly recordId: RecordId;
  readonly leaf: Uint8Array;
  readonly sealed: Uint8Array;
  readonly opening: Uint8Array;
  readonly leafHash: Hash;
  /** What is sealed, for the receipt; never stored as it is. */
  readonly record: Uint8Array;
}

/** What the records of one batch share. */
export interface Sequenced {
  readonly head: LogHead;
  /** Index of the first record of the batch; the genesis leaf, where there is one, stands before it. */
  readonly firstLeafIndex: number;
  readonly recordedAt: string;
  readonly entries: readonly SealedEntry[];
  /** Key of the log's search index, where the log begins with this batch. */
  readonly searchKey: Uint8Array | undefined;
  /** A fresh key for the index of registrations, for a log that has none yet. */
  readonly artifactKey: Uint8Array;
}

const originRandomBytes = 16;
const recordIdRandomBytes = 16;
const searchKeyOffset = openingBytes + originRandomBytes + recordIdRandomBytes;
const artifactKeyOffset = searchKeyOffset + searchKeyBytes;
const beginningBytes = artifactKeyOffset + artifactKeyBytes;

/** Random bytes that a batch needs: an opening per record, and what a log needs that begins, or has no such key yet. */
export function seedBytes(recordCount: number): number {
  return recordCount * openingBytes + beginningBytes;
}

/**
 * Sequences one batch of one tenant.
 *
 * @param head the log's head as read under its lock, or undefined when the tenant has no log yet
 * @param nowMs the clock; time within a log never goes back, so the later of it and the head's is recorded
 * @param seed `seedBytes(records.length)` fresh random bytes
 * @param originPrefix what stands before the random part of a new log's origin
 * @param publicKey the key that signs a new log, 32 bytes; undefined where the store has none yet
 * @throws RangeError or TypeError for a record that cannot be stored
 */
export function sequence(
  head: LogHead | undefined,
  records: readonly [EncodedRecord, ...EncodedRecord[]],
  nowMs: number,
  seed: Uint8Array,
  originPrefix: string,
  publicKey?: Uint8Array,
): Sequenced {
  if (seed.length !== seedBytes(records.length)) throw new RangeError("The seed has the wrong size.");
  const genesisSeed = seed.subarray(records.length * openingBytes);
  const recordedAtMs = Math.max(nowMs, head?.lastRecordedAtMs ?? 0);
  const recordedAt = new Date(recordedAtMs).toISOString();
  const origin = head?.origin ?? `${originPrefix}/${newOriginSuffix(genesisSeed)}`;
  const position: LogPosition = { log: origin, recordedAt };
  const entries: SealedEntry[] = [];
  if (head === undefined) {
    const recordId = genesisRecordId(genesisSeed, recordedAtMs);
    const bytes = genesisRecordBytes(recordId, records[0], position, publicKey);
    entries.push(sealEntry({ kind: "genesis", recordId }, recordedAt, bytes, 0, genesisSeed.subarray(0, openingBytes)));
  }
  const firstLeafIndex = (head?.size ?? 0) + entries.length;
  records.forEach((record, index) => {
    const opening = seed.subarray(index * openingBytes, (index + 1) * openingBytes);
    entries.push(sealEntry(record, recordedAt, recordBytes(record, position), firstLeafIndex + index, opening));
  });
  const size = firstLeafIndex + records.length;
  return {
    head: { origin, size, lastRecordedAtMs: recordedAtMs },
    firstLeafIndex,
    recordedAt,
    entries,
    searchKey: head === undefined ? genesisSeed.subarray(searchKeyOffset, artifactKeyOffset) : undefined,
    artifactKey: genesisSeed.subarray(artifactKeyOffset, beginningBytes),
  };
}

/** The part of a record that its leaf shows. */
interface Shown {
  readonly kind: RecordKind;
  readonly recordId: RecordId;
  readonly policyRevision?: string;
}

function sealEntry(
  { kind, recordId, policyRevision }: Shown,
  recordedAt: string,
  record: Uint8Array,
  leafIndex: number,
  opening: Uint8Array,
): SealedEntry {
  const { commitment, sealed } = seal(record, opening);
  const leaf = leafBytes({
    kind,
    record_id: recordId,
    recorded_at: recordedAt,
    ...(policyRevision === undefined ? {} : { policy_revision: policyRevision }),
    commitment,
  });
  return { leafIndex, recordId, leaf, leafHash: leafHash(leaf), sealed, opening, record };
}

/** Opaque, so that an origin tells nothing of its tenant; hexadecimal, so that it fits a signed note's key name. */
function newOriginSuffix(genesisSeed: Uint8Array): string {
  return Buffer.from(genesisSeed.subarray(openingBytes, openingBytes + originRandomBytes)).toString("hex");
}

function genesisRecordId(genesisSeed: Uint8Array, nowMs: number): RecordId {
  const random = genesisSeed.subarray(openingBytes + originRandomBytes, searchKeyOffset);
  return v7({ msecs: nowMs, random, seq: 0 }) as RecordId;
}
