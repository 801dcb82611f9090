/** What appending to logs takes, of one tenant or of many at once. */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill, TenantId } from "../../../base/ids.ts";
import { EdgeCache } from "../../../ledger/append/edge-cache.ts";
import { type Sequenced, seedBytes } from "../../../ledger/append/sequence.ts";
import type { AnchoredLog } from "../../../ledger/ports/anchor.ts";
import type { LogState } from "../../../ledger/ports/store.ts";
import type { EncodedRecord } from "../../../ledger/record/record.ts";
import type { RightEdge } from "../../../ledger/tlog/right-edge.ts";
import { type Hash, sameHash } from "../../../ledger/tlog/tree.ts";
import { SearchTerms, type Waiting } from "../../search-backlog.ts";
import { addRecords, type LogIndex, sequenceRecords } from "../../sql/add-records.ts";
import { refuseUnsound } from "../../sql/anchoring.ts";
import type { StoredHead } from "../../sql/log-rows.ts";
import type { Queries } from "../../sql/queries.ts";
import { anchorConnection, createAnchor, SqliteAnchor } from "../../sqlite/log/anchor.ts";
import type { SigningKeysOfStore } from "./signing-keys.ts";

export interface LogToolsOptions {
  readonly anchor: SqliteAnchor | undefined;
  readonly originPrefix: string;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** The keys that will sign what is written; undefined where nothing will be signed. */
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
  /** What the newest leaves of logs will be found by. */
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
   * Fresh randomness at every attempt: what was sealed in one that failed may be on the server's disk. Throws
   * `UnstorableError` where a record cannot be built.
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

/** States that are known to be durable, one a log. About 200 bytes each. */
const maxConfirmed = 16_384;

/** Checks logs against their anchor before an append, and advances the anchor after a commit. */
class LogAnchoring {
  readonly #anchor: SqliteAnchor | undefined;
  readonly #confirmed = new LRUCache<TenantId, Hash>({ max: maxConfirmed });

  constructor(anchor: SqliteAnchor | undefined) {
    this.#anchor = anchor;
  }

  /** Advances the anchor to states that are durable, of all logs in one step. */
  confirm(...logs: readonly LogState[]): void {
    if (logs.length === 0) return;
    this.#anchor?.advance(logs);
    for (const { tenantId, root } of logs) this.#confirmed.set(tenantId, root);
  }

  /** Whether a state of the tenant's log was seen to be durable: then it has one. */
  hasLog(tenantId: TenantId): boolean {
    return this.#confirmed.has(tenantId);
  }

  /** What was noted of a log, where something was. */
  anchored(tenantId: TenantId): AnchoredLog | undefined {
    return this.#anchor?.find(tenantId);
  }

  /** Whether this state was seen to be durable and is the one that is anchored. */
  isConfirmed({ tenantId, size, root }: LogState): boolean {
    const confirmed = this.#confirmed.get(tenantId);
    if (confirmed === undefined || !sameHash(confirmed, root)) return false;
    if (this.#anchor === undefined) return true;
    const anchored = this.#anchor.find(tenantId);
    return anchored?.size === size && sameHash(anchored.root, root);
  }

  /** Rejects with `UnsoundLogError` where the log is not what its anchor says. */
  refuseUnsound(queries: Queries, tenantId: TenantId, log: LogState | undefined): Promise<void> {
    return refuseUnsound(queries, tenantId, log, this.#anchor?.find(tenantId));
  }
}

/** Of all logs together. Of others the records are read again, once in 64 leaves. */
const maxBytes = 16 * 1024 * 1024;
/** What a log takes beside its terms at most, about: few of them may hold a buffer of which they are a part. */
const overheadBytes = 4 * 1024;

/** What the newest leaves of logs will be found by, as this process appended them. */
export class WaitingTerms {
  readonly #cache = new LRUCache<TenantId, { readonly root: Hash; readonly waiting: Waiting }>({
    maxSize: maxBytes,
    sizeCalculation: ({ waiting }) => waiting.packed.length + overheadBytes,
  });

  /** Of all leaves that wait, where nobody has appended since: so nobody has erased since either. */
  of({ tenantId, root }: Pick<LogState, "tenantId" | "root">): Waiting | undefined {
    const known = this.#cache.get(tenantId);
    return known !== undefined && sameHash(known.root, root) ? known.waiting : undefined;
  }

  /** To be called once the log has been committed. */
  put({ tenantId, root }: Pick<LogState, "tenantId" | "root">, waiting: Waiting | undefined): void {
    if (waiting === undefined) this.#cache.delete(tenantId);
    else this.#cache.set(tenantId, { root, waiting });
  }
}

/** Short, because the event loop waits with it. Replicas hold the lock for microseconds. */
const anchorBusyTimeoutMs = 500;

/**
 * Opens the file, and creates it where it is missing. Throws `IncompatibleStoreError` where it is something else, a
 * file system or SQLite error where it cannot be used.
 */
export function openFileAnchor(path: string): SqliteAnchor {
  createAnchor(path, anchorBusyTimeoutMs);
  return SqliteAnchor.open({ ...anchorConnection, path, busyTimeoutMs: anchorBusyTimeoutMs });
}
