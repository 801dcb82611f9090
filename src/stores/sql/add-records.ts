/** Adds a batch to a log's right edge, and says which rows store it. */
import type { TenantId } from "../../base/ids.ts";
import { type LogHead, type SealedEntry, type Sequenced, sequence } from "../../ledger/append/sequence.ts";
import { type CommittedRecord, type EncodedRecord, type LogState, UnstorableError } from "../../ledger/ports/store.ts";
import { committedRecords } from "../../ledger/record/committed-record.ts";
import { indexedRecords } from "../../ledger/search/search-terms.ts";
import type { RightEdge, WrittenTile } from "../../ledger/tlog/right-edge.ts";
import { type KeptCall, keptCall } from "./idempotency-records.ts";
import {
  additionOf,
  type IndexGeneration,
  type ReadAgain,
  type SearchAddition,
  type SearchTerms,
  type Waiting,
} from "./search-backlog.ts";

/** The search index of a log as it is before an append. */
export interface LogIndex {
  readonly index: IndexGeneration | undefined;
  readonly waiting: Waiting | undefined;
  readonly read: ReadAgain | undefined;
}

interface Adding extends LogIndex {
  readonly tenantId: TenantId;
  readonly terms: SearchTerms;
}

/** Rows that a batch adds to the tables beside the head, under its lock. */
export interface AddedRows {
  readonly entries: readonly SealedEntry[];
  readonly tiles: readonly WrittenTile[];
  readonly calls: readonly KeptCall[];
  readonly search: SearchAddition;
}

/** Adds sequenced records to the edge. The result is valid after the commit of its rows. */
export function addRecords(
  fresh: readonly EncodedRecord[],
  sequenced: Sequenced,
  edge: RightEdge,
  { tenantId, terms, ...index }: Adding,
): { readonly log: LogState; readonly committed: readonly CommittedRecord[]; readonly rows: AddedRows } {
  const { entries, head } = sequenced;
  const before = edge.size;
  for (const { leafHash } of entries) edge.append(leafHash);
  const tree = edge.tree();
  const log: LogState = { tenantId, origin: head.origin, size: edge.size, root: tree.root() };
  const committed = committedRecords(sequenced, tree, log);
  const own = entries.slice(-fresh.length);
  const calls = fresh.flatMap(({ idempotency }, position) => {
    const entry = own[position];
    return idempotency === undefined || entry === undefined ? [] : [keptCall(idempotency, entry)];
  });
  const tiles = edge.takeTouched();
  const records = indexedRecords(sequenced, fresh);
  const search = additionOf(terms, { ...index, before, size: log.size, records });
  return { log, committed, rows: { entries, tiles, calls, search } };
}

/** As `sequence`. Throws `UnstorableError` if a record cannot be built, or there is none. */
export function sequenceRecords(
  head: LogHead | undefined,
  records: readonly EncodedRecord[],
  ...how: [nowMs: number, seed: Uint8Array, originPrefix: string, publicKey: Uint8Array | undefined]
): Sequenced {
  const [first, ...rest] = records;
  if (first === undefined) throw new UnstorableError("The batch is empty.");
  try {
    return sequence(head, [first, ...rest], ...how);
  } catch (cause) {
    throw new UnstorableError(cause instanceof Error ? cause.message : "The record cannot be built.", { cause });
  }
}
