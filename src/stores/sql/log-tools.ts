/** Tools of appends: they sequence records, add them to a log, and remember logs between two appends. */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../base/clock.ts";
import type { RandomFill, TenantId } from "../../base/ids.ts";
import { EdgeCache } from "../../ledger/append/edge-cache.ts";
import { type SealedEntry, type Sequenced, seedBytes, sequence } from "../../ledger/append/sequence.ts";
import { type CommittedRecord, type EncodedRecord, type LogState, UnstorableError } from "../../ledger/ports/store.ts";
import { committedRecords } from "../../ledger/record/committed-record.ts";
import { indexedRecords } from "../../ledger/search/search-terms.ts";
import type { RightEdge, WrittenTile } from "../../ledger/tlog/right-edge.ts";
import { type Hash, sameHash } from "../../ledger/tlog/tree.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import { type KeptCall, keptCall } from "./idempotency-records.ts";
import type { StoredHead } from "./log-rows.ts";
import {
  additionOf,
  type IndexGeneration,
  type ReadAgain,
  type SearchAddition,
  SearchTerms,
  type Waiting,
} from "./search-backlog.ts";
import type { SigningKeysOfStore } from "./signing-keys.ts";

/** The search index of a log as it is before an append. */
export interface LogIndex {
  readonly index: IndexGeneration | undefined;
  readonly waiting: Waiting | undefined;
  readonly read: ReadAgain | undefined;
}

/** Rows that a batch adds to the tables beside the head, under its lock. */
export interface AddedRows {
  readonly entries: readonly SealedEntry[];
  readonly tiles: readonly WrittenTile[];
  readonly calls: readonly KeptCall[];
  readonly search: SearchAddition;
}

/** A log to which records were added. */
export interface Grown extends Pick<LogIndex, "waiting"> {
  readonly log: StoredHead;
  readonly edge: RightEdge;
}

/** Bound of the logs whose durable state is remembered. About 200 bytes each. */
const maxConfirmed = 16_384;

export interface LogToolsOptions {
  readonly anchor: SqliteAnchor | undefined;
  readonly originPrefix: string;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** The keys that sign new trees; undefined if nothing is signed. */
  readonly keys?: SigningKeysOfStore | undefined;
  /** Whether nothing else waits for this thread, so that large batches need not be made in turns. Default: false. */
  readonly isAlone?: boolean;
}

export class LogTools {
  readonly anchor: SqliteAnchor | undefined;
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly keys: SigningKeysOfStore | undefined;
  readonly isAlone: boolean;
  readonly edges = new EdgeCache();
  /** Search terms of the newest leaves of logs. */
  readonly waiting = new WaitingTerms();
  readonly #originPrefix: string;
  readonly #terms = new SearchTerms();
  /** Roots of logs that are durable and anchored. */
  readonly #confirmed = new LRUCache<TenantId, Hash>({ max: maxConfirmed });

  constructor({ anchor, originPrefix, clock, random, keys, isAlone = false }: LogToolsOptions) {
    this.anchor = anchor;
    this.#originPrefix = originPrefix;
    this.clock = clock;
    this.random = random;
    this.keys = keys;
    this.isAlone = isAlone;
  }

  /**
   * Draws new randomness at every attempt: bytes sealed in a failed attempt may be on the server's disk. Throws
   * `UnstorableError` if a record cannot be built.
   */
  sequence(head: StoredHead | undefined, records: readonly EncodedRecord[]): Sequenced {
    const [first, ...rest] = records;
    if (first === undefined) throw new UnstorableError("The batch is empty.");
    const seed = this.random(new Uint8Array(seedBytes(records.length)));
    const key = head === undefined ? this.keys?.at(this.keys.position) : undefined;
    try {
      return sequence(head, [first, ...rest], this.clock.now(), seed, this.#originPrefix, key);
    } catch (cause) {
      throw new UnstorableError(cause instanceof Error ? cause.message : "The record cannot be built.", { cause });
    }
  }

  /** Adds sequenced records to the edge. The result is valid after the commit of its rows. */
  addRecords(
    fresh: readonly EncodedRecord[],
    sequenced: Sequenced,
    edge: RightEdge,
    { tenantId, ...index }: LogIndex & { readonly tenantId: TenantId },
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
    const search = additionOf(this.#terms, { ...index, before, size: log.size, records });
    return { log, committed, rows: { entries, tiles, calls, search } };
  }

  /** Remembers logs, and advances the anchor to them. Must be called after the commit. */
  keep({ logs, grown }: { readonly logs: readonly LogState[]; readonly grown: readonly Grown[] }): void {
    for (const { log, edge, waiting } of grown) {
      this.edges.put(log.tenantId, edge, log.root);
      this.waiting.put(log, waiting);
    }
    if (logs.length > 0) this.anchor?.advance(logs);
    for (const { tenantId, root } of logs) this.#confirmed.set(tenantId, root);
  }

  /** Whether the tenant has a durable log. */
  hasLog(tenantId: TenantId): boolean {
    return this.#confirmed.has(tenantId);
  }

  /** Whether this state is known to be durable and anchored. */
  isConfirmed({ tenantId, size, root }: LogState): boolean {
    const confirmed = this.#confirmed.get(tenantId);
    if (confirmed === undefined || !sameHash(confirmed, root)) return false;
    if (this.anchor === undefined) return true;
    const anchored = this.anchor.find(tenantId);
    return anchored?.size === size && sameHash(anchored.root, root);
  }
}

/** Bound over all logs. Records of evicted logs are read again, once in 64 leaves. */
const maxBytes = 16 * 1024 * 1024;
/** Estimated bytes per log beside its terms: a few terms may hold a larger buffer. */
const overheadBytes = 4 * 1024;

/** Search terms of the newest leaves, as this process appended them. */
export class WaitingTerms {
  readonly #cache = new LRUCache<TenantId, { readonly root: Hash; readonly waiting: Waiting }>({
    maxSize: maxBytes,
    sizeCalculation: ({ waiting }) => waiting.packed.length + overheadBytes,
  });

  /** Returns the terms of all waiting leaves, if no other process has appended, or erased, since. */
  of({ tenantId, root }: Pick<LogState, "tenantId" | "root">): Waiting | undefined {
    const known = this.#cache.get(tenantId);
    return known !== undefined && sameHash(known.root, root) ? known.waiting : undefined;
  }

  /** Must be called after the commit. */
  put({ tenantId, root }: Pick<LogState, "tenantId" | "root">, waiting: Waiting | undefined): void {
    if (waiting === undefined) this.#cache.delete(tenantId);
    else this.#cache.set(tenantId, { root, waiting });
  }
}
