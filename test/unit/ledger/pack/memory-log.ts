/** A log in memory, written and sealed as stores do, for packs to be made of. */
import type { RecordId } from "../../../../src/base/ids.ts";
import { formatBase64 } from "../../../../src/base/text-forms.ts";
import { encodeRecord } from "../../../../src/ledger/append/record-text.ts";
import { type LogHead, type SealedEntry, sequence } from "../../../../src/ledger/append/sequence.ts";
import { type PackSource, packLines } from "../../../../src/ledger/pack/build.ts";
import type { PackSelection } from "../../../../src/ledger/pack/format.ts";
import type { NewRecord, StoredRecord } from "../../../../src/ledger/ports/record.ts";
import type { AppendableRecord, LogState } from "../../../../src/ledger/ports/store.ts";
import { canonicalText } from "../../../../src/ledger/record/canonical.ts";
import { erasureRecord, rotationRecord } from "../../../../src/ledger/record/operator-records.ts";
import type { GivenReceipt } from "../../../../src/ledger/record/receipt.ts";
import { requestDigest } from "../../../../src/ledger/record/record.ts";
import { seal } from "../../../../src/ledger/record/sealing.ts";
import { hasTerms } from "../../../../src/ledger/search/search-terms.ts";
import { formatVerifierKey, parseVerifierKey, signingKeyOf } from "../../../../src/ledger/tlog/note-keys.ts";
import { RightEdge } from "../../../../src/ledger/tlog/right-edge.ts";
import { LogSigner } from "../../../../src/ledger/tlog/signer.ts";
import { nodesOfTiles } from "../../../../src/ledger/tlog/tile-nodes.ts";
import { formatPath, formatTlogProof } from "../../../../src/ledger/tlog/tlog-proof.ts";
import { leafHash, Tree } from "../../../../src/ledger/tlog/tree.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../../../contract/ledger-records.ts";
import { must } from "../../domain/world.ts";

type Stored = Omit<SealedEntry, "opening"> & { opening: Uint8Array | undefined; recordedAtMs: number };

export const startMs = Date.UTC(2026, 0, 2);

/** A moment as packs write it, in seconds after the first. */
export function moment(seconds: number): string {
  return new Date(startMs + seconds * 1_000).toISOString();
}

/** Entries that a page of a search looks at, at most. */
const pageSteps = 3;

export function memoryLog({ name = "alice", seed = name }: { readonly name?: string; readonly seed?: string } = {}) {
  const tenantId = tenant(name);
  const clock = manualClock(startMs);
  const random = seededRandom(seed);
  const makeRecord = recordMaker(clock, random);
  const key = signingKeyOf(random(new Uint8Array(32)));
  let edge = new RightEdge();
  const tiles = new Map<string, Uint8Array>();
  const entries: Stored[] = [];
  const policies = new Map<string, string>();
  let logHead: LogHead | undefined;

  /** Puts the leaves into the tree that are not in it yet. */
  function grow(): void {
    for (const { leaf } of entries.slice(edge.size)) edge.append(leafHash(leaf));
    for (const { level, index, hashes } of edge.takeTouched()) tiles.set(`${level}/${index}`, hashes.slice());
  }

  function appendRecords(records: readonly [AppendableRecord, ...AppendableRecord[]]): readonly RecordId[] {
    const [first, ...rest] = records;
    const sequencing = { nowMs: clock.now(), random, originPrefix: "ledger.example", publicKey: key.publicKey };
    const sequenced = sequence(logHead, [encodeRecord(first), ...rest.map(encodeRecord)], sequencing);
    for (const entry of sequenced.entries) entries.push({ ...entry, recordedAtMs: sequenced.head.lastRecordedAtMs });
    grow();
    logHead = sequenced.head;
    return records.map(({ recordId }) => recordId);
  }

  const head = (): LogState => ({
    tenantId,
    origin: logHead?.origin ?? "",
    size: edge.size,
    root: edge.tree().root(),
  });

  const sign = () => new LogSigner([key]).sign(head());

  const source: PackSource = {
    async *entries(_, first, end) {
      for (const entry of entries.slice(first, end)) yield entry;
    },
    storedTile: async (_, level, index) => tiles.get(`${level}/${index}`),
    policyRevision: async (revision) => policies.get(revision),
    // Ends a page after a few steps, found or not, as stores may.
    async search({ terms, fromMs = -Infinity, toMs = Infinity, after = -1, limit }) {
      const begin = Math.max(
        after + 1,
        entries.findIndex((each) => each.recordedAtMs >= fromMs),
        fromMs > (entries.at(-1)?.recordedAtMs ?? 0) ? entries.length : 0,
      );
      const looked = entries.slice(begin, begin + (terms.length === 0 ? limit : pageSteps));
      const found = looked.filter((each) => {
        if (each.recordedAtMs < fromMs || each.recordedAtMs >= toMs) return false;
        if (each.opening === undefined)
          return terms.every(({ field, value }) => field === "record_id" && value === each.recordId);
        return hasTerms(recordOf(each), terms);
      });
      const last = looked.at(-1)?.leafIndex ?? entries.length;
      return {
        size: entries.length,
        found: found.map(({ leafIndex, recordId, leaf, opening }) => ({
          leafIndex,
          recordId,
          kind: JSON.parse(Buffer.from(leaf).toString()).kind,
          recordedAt: JSON.parse(Buffer.from(leaf).toString()).recorded_at,
          erased: opening === undefined,
        })),
        ...(last + 1 < entries.length && looked.length > 0 && { next: last }),
      };
    },
  };

  return {
    clock,
    entries,
    tiles,
    policies,
    source,
    head,
    makeRecord: (changes: Partial<NewRecord> = {}) => makeRecord(tenantId, changes),
    appendRecords,
    /** Appends one record and returns its id; a second passes before the next. */
    append(changes: Partial<NewRecord> = {}): RecordId {
      const [id] = appendRecords([makeRecord(tenantId, changes)]);
      clock.nowMs += 1_000;
      return id as RecordId;
    },
    /** Appends whatever leaf and record a holder of the key makes of an honest record. */
    forge(change: (leaf: Record<string, unknown>, record: Record<string, unknown>) => void, storedAs?: RecordId): void {
      const [id] = appendRecords([makeRecord(tenantId)]);
      const entry = entries.pop() as Stored;
      const [leaf, record] = [
        JSON.parse(Buffer.from(entry.leaf).toString()),
        JSON.parse(Buffer.from(entry.record).toString()),
      ];
      change(leaf, record);
      const bytes = Buffer.from(record.text ?? canonicalText(record));
      const opening = entry.opening as Uint8Array;
      const { commitment, sealed } = seal(bytes, opening);
      const forged = Buffer.from(canonicalText({ ...leaf, commitment }));
      edge = new RightEdge();
      tiles.clear();
      entries.push({ ...entry, recordId: (storedAs ?? id) as RecordId, leaf: forged, sealed, record: bytes });
      grow();
      clock.nowMs += 1_000;
    },
    /** Appends what a holder of the key says of an erasure, and removes the openings of these leaves. */
    forgeErasure(recordId: string, leafIndex: number, ...erased: readonly number[]): void {
      this.forge((leaf, record) => {
        leaf.kind = "erasure";
        delete leaf.policy_revision;
        const request = { record_id: recordId };
        const request_digest = requestDigest(request);
        Object.assign(record, { kind: "erasure", request, request_digest, outcome: { leaf_index: leafIndex } });
      });
      for (const each of erased) (entries[each] as Stored).opening = undefined;
    },
    /** Appends a record, another of the same id, and one erasure; neither can be opened. */
    forgeTwins(): void {
      const id = this.append();
      this.forge((leaf, record) => {
        leaf.record_id = id;
        record.record_id = id;
      }, id);
      this.forgeErasure(id, 2, 1, 2);
    },
    /** As `ledger erase` does. */
    erase(recordId: RecordId): void {
      const entry = entries.find((each) => each.recordId === recordId) as Stored;
      const { kind } = JSON.parse(Buffer.from(entry.leaf).toString());
      const place = { recordId, leafIndex: entry.leafIndex, kind, idempotencyRecords: 0 };
      appendRecords([erasureRecord(tenantId, place, { reason: "request 7", operator: "olga", clock, random })]);
      entry.opening = undefined;
      clock.nowMs += 1_000;
    },
    /** Goes over to a new key. Returns what signs with both, or with the new one alone. */
    rotate(previous = key) {
      const next = signingKeyOf(random(new Uint8Array(32)));
      const keys = { current: next.publicKey, previous: previous.publicKey };
      const statement = { reason: "yearly", operator: "olga" };
      appendRecords([rotationRecord(tenantId, { ...keys, statement, clock, random })]);
      clock.nowMs += 1_000;
      return {
        next,
        both: () => new LogSigner([next, previous]).sign(head()),
        alone: () => new LogSigner([next]).sign(head()),
        verifier: () => verifierOf(head().origin, next.publicKey),
        vkey: () => formatVerifierKey(head().origin, next.publicKey),
      };
    },
    verifier: () => verifierOf(head().origin, key.publicKey),
    vkey: () => formatVerifierKey(head().origin, key.publicKey),
    /** The receipt of a leaf in the newest tree. */
    receipt(leafIndex: number): GivenReceipt {
      const { origin, size } = head();
      const { recordId, leaf, opening, record } = entries[leafIndex] as Stored;
      const path = new Tree(
        size,
        nodesOfTiles((level, index) => tiles.get(`${level}/${index}`)),
      ).inclusionProof(leafIndex);
      return {
        record_id: recordId,
        log_origin: origin,
        leaf_index: leafIndex,
        tree_size: size,
        leaf_hash: formatBase64(leafHash(leaf)),
        proof: formatTlogProof(leafIndex, formatPath(path), sign()),
        leaf: formatBase64(leaf),
        opening: formatBase64(opening ?? new Uint8Array(0)),
        record: formatBase64(record),
      };
    },
    async pack(selection: PackSelection, checkpoint = sign()): Promise<string> {
      const request = { head: head(), checkpoint, selection, nowMs: clock.now() };
      let text = "";
      for await (const line of packLines(source, request)) text += line;
      return text;
    },
  };
}

function verifierOf(origin: string, publicKey: Uint8Array) {
  return must(parseVerifierKey(formatVerifierKey(origin, publicKey)));
}

export type MemoryLog = ReturnType<typeof memoryLog>;

function recordOf({ record }: Stored): StoredRecord {
  return JSON.parse(Buffer.from(record).toString()) as StoredRecord;
}
