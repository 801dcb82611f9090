/** What appending to logs takes, of one tenant or of many at once. */
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill, TenantId } from "../../../base/ids.ts";
import { EdgeCache } from "../../../ledger/append/edge-cache.ts";
import { type Sequenced, seedBytes, sequence } from "../../../ledger/append/sequence.ts";
import { UnstorableError } from "../../../ledger/ports/store.ts";
import type { EncodedRecord } from "../../../ledger/record/record.ts";
import type { RightEdge } from "../../../ledger/tlog/right-edge.ts";
import { SearchTerms } from "../../search-backlog.ts";
import { addRecords, type LogIndex } from "../../sql/add-records.ts";
import type { StoredHead } from "../../sql/log-rows.ts";
import type { SqliteAnchor } from "../../sqlite/log/anchor.ts";
import { WaitingTerms } from "../search/waiting-terms.ts";
import { LogAnchoring } from "./anchoring.ts";
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

  addRecords(
    fresh: readonly EncodedRecord[],
    sequenced: Sequenced,
    edge: RightEdge,
    of: LogIndex & { readonly tenantId: TenantId },
  ) {
    return addRecords(fresh, sequenced, edge, { ...of, terms: this.#terms });
  }
}
