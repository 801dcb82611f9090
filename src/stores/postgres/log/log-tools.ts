/** Tools of an append, for one tenant or for many at once. */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill, TenantId } from "../../../base/ids.ts";
import { EdgeCache } from "../../../ledger/append/edge-cache.ts";
import { type Sequenced, seedBytes } from "../../../ledger/append/sequence.ts";
import type { AnchoredLog } from "../../../ledger/ports/anchor.ts";
import type { EncodedRecord, LogState } from "../../../ledger/ports/store.ts";
import type { RightEdge } from "../../../ledger/tlog/right-edge.ts";
import { type Hash, sameHash } from "../../../ledger/tlog/tree.ts";
import { anchorConnection, createAnchor, SqliteAnchor } from "../../files/anchor.ts";
import { addRecords, type LogIndex, sequenceRecords } from "../../sql/add-records.ts";
import { refuseUnsound } from "../../sql/anchoring.ts";
import type { StoredHead } from "../../sql/log-rows.ts";
import type { Queries } from "../../sql/queries.ts";
import { SearchTerms, type Waiting } from "../../sql/search-backlog.ts";
import type { SigningKeysOfStore } from "./signing-keys.ts";

export interface LogToolsOptions {
  readonly anchor: SqliteAnchor | undefined;
  readonly originPrefix: string;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** The keys that sign new trees; undefined if nothing is signed. */
  readonly keys?: SigningKeysOfStore | undefined;
}

export class LogTools {
  readonly anchoring: LogAnchoring;
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly keys: SigningKeysOfStore | undefined;
  readonly edges = new EdgeCache();
  /** Tenants whose newest append has an unknown outcome. */
  readonly doubted = new Set<TenantId>();
  /** Search terms of the newest leaves of logs. */
  readonly waiting = new WaitingTerms();
  readonly #originPrefix: string;
  readonly #terms = new SearchTerms();

  constructor({ anchor, originPrefix, clock, random, keys }: LogToolsOptions) {
    this.anchoring = new LogAnchoring(anchor);
    this.#originPrefix = originPrefix;
    this.clock = clock;
    this.random = random;
    this.keys = keys;
  }

  /**
   * Draws new randomness at every attempt: bytes sealed in a failed attempt may be on the server's disk. Throws
   * `UnstorableError` if a record cannot be built.
   */
  sequence(head: StoredHead | undefined, records: readonly EncodedRecord[]): Sequenced {
    const seed = this.random(new Uint8Array(seedBytes(records.length)));
    const key = head === undefined ? this.keys?.at(this.keys.position) : undefined;
    return sequenceRecords(head, records, this.clock.now(), seed, this.#originPrefix, key);
  }

  addRecords(
    fresh: readonly EncodedRecord[],
    sequenced: Sequenced,
    edge: RightEdge,
    of: LogIndex & { readonly tenantId: TenantId },
  ) {
    return addRecords(fresh, sequenced, edge, { ...of, terms: this.#terms });
  }
}

/** Bound of the logs whose durable state is remembered. About 200 bytes each. */
const maxConfirmed = 16_384;

/** Checks logs against their anchor before an append, and advances the anchor after a commit. */
class LogAnchoring {
  readonly #anchor: SqliteAnchor | undefined;
  readonly #confirmed = new LRUCache<TenantId, Hash>({ max: maxConfirmed });

  constructor(anchor: SqliteAnchor | undefined) {
    this.#anchor = anchor;
  }

  /** Advances the anchor to durable states, of all logs in one step. */
  confirm(...logs: readonly LogState[]): void {
    if (logs.length === 0) return;
    this.#anchor?.advance(logs);
    for (const { tenantId, root } of logs) this.#confirmed.set(tenantId, root);
  }

  /** Whether the tenant has a durable log. */
  hasLog(tenantId: TenantId): boolean {
    return this.#confirmed.has(tenantId);
  }

  /** Returns the anchored state of a log, if there is one. */
  anchored(tenantId: TenantId): AnchoredLog | undefined {
    return this.#anchor?.find(tenantId);
  }

  /** Whether this state is known to be durable and anchored. */
  isConfirmed({ tenantId, size, root }: LogState): boolean {
    const confirmed = this.#confirmed.get(tenantId);
    if (confirmed === undefined || !sameHash(confirmed, root)) return false;
    if (this.#anchor === undefined) return true;
    const anchored = this.#anchor.find(tenantId);
    return anchored?.size === size && sameHash(anchored.root, root);
  }

  /** Rejects with `UnsoundLogError` if the log contradicts its anchor. */
  refuseUnsound(queries: Queries, tenantId: TenantId, log: LogState | undefined): Promise<void> {
    return refuseUnsound(queries, tenantId, log, this.#anchor?.find(tenantId));
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

/** Short, because it blocks the event loop. Replicas hold the lock for microseconds. */
const anchorBusyTimeoutMs = 500;

/**
 * Opens the file, and creates it if it is missing. Throws `IncompatibleStoreError` if it is another kind of file, a
 * file system or SQLite error if it cannot be used.
 */
export function openFileAnchor(path: string): SqliteAnchor {
  createAnchor(path, anchorBusyTimeoutMs);
  return SqliteAnchor.open({ ...anchorConnection, path, busyTimeoutMs: anchorBusyTimeoutMs });
}
