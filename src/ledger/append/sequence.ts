/** Assigns leaf indices and times, and seals records. Pure: the store calls it under the lock of the log's head. */
import { newRecordId, type RandomFill, type RecordId } from "../../base/ids.ts";
import { artifactKeyBytes } from "../artifacts/registration-index.ts";
import type { RecordKind } from "../ports/record.ts";
import type { EncodedRecord, TimedLog } from "../ports/store.ts";
import { leafBytes } from "../record/leaf.ts";
import { genesisRecordBytes, type LogPosition, recordBytes } from "../record/record.ts";
import { openingBytes, seal } from "../record/sealing.ts";
import { searchKeyBytes } from "../search/search-index.ts";
import { type Hash, leafHash } from "../tlog/tree.ts";

export type LogHead = Pick<TimedLog, "origin" | "size" | "lastRecordedAtMs">;

export interface SealedEntry {
  readonly leafIndex: number;
  readonly recordId: RecordId;
  readonly leaf: Uint8Array;
  readonly sealed: Uint8Array;
  readonly opening: Uint8Array;
  readonly leafHash: Hash;
  /** The bytes that are sealed, for the receipt; never stored in plain. */
  readonly record: Uint8Array;
}

export interface Sequenced {
  readonly head: LogHead;
  /** Index of the first record of the batch, after the genesis leaf if there is one. */
  readonly firstLeafIndex: number;
  readonly recordedAt: string;
  readonly entries: readonly SealedEntry[];
  /** Key of the log's search index, if the log begins with this batch. */
  readonly searchKey: Uint8Array | undefined;
  /** A fresh key for the index of registrations, if the log has none. */
  readonly artifactKey: Uint8Array;
}

const originRandomBytes = 16;
const recordIdRandomBytes = 16;

/** Most random bytes that `sequence` draws: an opening for each record and the genesis, and what else a new log has. */
export function seedBytes(recordCount: number): number {
  const ofNewLog = originRandomBytes + recordIdRandomBytes + searchKeyBytes + artifactKeyBytes;
  return (recordCount + 1) * openingBytes + ofNewLog;
}

/** What a batch is sequenced with. */
interface Sequencing {
  /** The clock; a time before the head's is replaced by the head's. */
  readonly nowMs: number;
  readonly random: RandomFill;
  /** Prefix of a new log's origin, before its random part. */
  readonly originPrefix: string;
  /** The key that signs a new log, 32 bytes; undefined if the store has none yet. */
  readonly publicKey?: Uint8Array | undefined;
}

/**
 * Sequences one batch of one tenant.
 *
 * @param head the log's head as read under its lock; of size 0 for a log that begins with this origin; undefined for one
 *   that begins with a new origin
 * @throws RangeError or TypeError for a record that cannot be stored
 */
export function sequence(
  head: LogHead | undefined,
  records: readonly [EncodedRecord, ...EncodedRecord[]],
  { nowMs, random, originPrefix, publicKey }: Sequencing,
): Sequenced {
  const recordedAtMs = Math.max(nowMs, head?.lastRecordedAtMs ?? 0);
  const recordedAt = new Date(recordedAtMs).toISOString();
  const origin = head?.origin ?? newOrigin(originPrefix, random);
  const position: LogPosition = { log: origin, recordedAt };
  const entries: SealedEntry[] = [];
  const isNew = head === undefined || head.size === 0;
  if (isNew) {
    const recordId = newRecordId({ now: () => recordedAtMs }, random);
    const bytes = genesisRecordBytes(recordId, records[0], position, publicKey);
    const opening = random(new Uint8Array(openingBytes));
    entries.push(sealEntry({ kind: "genesis", recordId }, recordedAt, bytes, 0, opening));
  }
  const firstLeafIndex = (head?.size ?? 0) + entries.length;
  const openings = random(new Uint8Array(records.length * openingBytes));
  records.forEach((record, index) => {
    const opening = openings.subarray(index * openingBytes, (index + 1) * openingBytes);
    entries.push(sealEntry(record, recordedAt, recordBytes(record, position), firstLeafIndex + index, opening));
  });
  const size = firstLeafIndex + records.length;
  return {
    head: { origin, size, lastRecordedAtMs: recordedAtMs },
    firstLeafIndex,
    recordedAt,
    entries,
    searchKey: isNew ? random(new Uint8Array(searchKeyBytes)) : undefined,
    artifactKey: random(new Uint8Array(artifactKeyBytes)),
  };
}

/** The part of a record that its leaf shows. */
type Shown = Pick<EncodedRecord, "recordId" | "policyRevision"> & { readonly kind: RecordKind };

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

/** Its random part reveals nothing of the tenant, and is hexadecimal, to fit a signed note's key name. */
export function newOrigin(prefix: string, random: RandomFill): string {
  return `${prefix}/${Buffer.from(random(new Uint8Array(originRandomBytes))).toString("hex")}`;
}
