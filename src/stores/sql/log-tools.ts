/** Tools of appends: they sequence records, write rows under the locks of heads, and remember logs between two appends. */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../base/clock.ts";
import type { RandomFill, TenantId } from "../../base/ids.ts";
import { isUsable } from "../../ledger/append/edge.ts";
import { newOrigin, type SealedEntry, type Sequenced, sequence } from "../../ledger/append/sequence.ts";
import { type EncodedRecord, type LogState, UnstorableError } from "../../ledger/ports/store.ts";
import type { RightEdge, WrittenTile } from "../../ledger/tlog/right-edge.ts";
import { type Hash, sameHash } from "../../ledger/tlog/tree.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import { type KeptCalls, keepAnswers } from "./idempotency-records.ts";
import type { SigningKeysOfStore } from "./key-ring.ts";
import type { StoredHead } from "./log-rows.ts";
import { onTenants, type Queries, queryRows, type TenantStatement, type Transaction, toRow } from "./queries.ts";
import { tables } from "./schema.ts";
import { type SearchAddition, SearchTerms, type Waiting } from "./search-backlog.ts";
import { addSearch } from "./search-segments.ts";

/** A log as an append leaves it. */
export interface AppendedLog {
  readonly log: StoredHead;
  /** Undefined if nothing was added. */
  readonly edge?: RightEdge;
  /** Terms of the leaves that wait for its search index, if known. */
  readonly waiting?: Waiting | undefined;
}

/** Bound of the logs whose durable state is remembered. About 200 bytes each. */
const maxConfirmed = 16_384;

/** State of a log that a process remembers, to append without reading. */
interface RememberedLog {
  readonly edge: RightEdge;
  readonly root: Hash;
  readonly waiting: Waiting | undefined;
}

/**
 * Bound over all logs, enough for a thousand. After an eviction, the next append reads the log's tiles again, and its
 * waiting records once in 64 leaves.
 */
const maxRememberedBytes = 64 * 1024 * 1024;
/** Estimated size of an edge, and overhead of a leaf's terms. Bytes. */
const [edgeBytes, leafBytes] = [32 * 1024, 256];

function sizeOf({ waiting }: RememberedLog): number {
  return (waiting?.leaves ?? []).reduce((sum, { terms }) => sum + leafBytes + terms.length, edgeBytes);
}

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
  readonly terms = new SearchTerms();
  readonly #originPrefix: string;
  readonly #remembered = new LRUCache<TenantId, RememberedLog>({
    maxSize: maxRememberedBytes,
    sizeCalculation: sizeOf,
  });
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

  newOrigin(): string {
    return newOrigin(this.#originPrefix, this.random);
  }

  /**
   * Draws new randomness at every attempt: bytes sealed in a failed attempt may be on the server's disk. Throws
   * `UnstorableError` if a record cannot be built.
   * @param origin of a log that begins; default: a new one
   */
  sequence(head: StoredHead | undefined, records: readonly EncodedRecord[], origin?: string): Sequenced {
    const [first, ...rest] = records;
    if (first === undefined) throw new UnstorableError("The batch is empty.");
    const publicKey = head === undefined ? this.keys?.at(this.keys.position) : undefined;
    const nowMs = this.clock.now();
    const sequencing = { nowMs, random: this.random, originPrefix: this.#originPrefix, publicKey };
    try {
      const after = head ?? (origin === undefined ? undefined : { origin, size: 0, lastRecordedAtMs: 0 });
      return sequence(after, [first, ...rest], sequencing);
    } catch (cause) {
      throw new UnstorableError(cause instanceof Error ? cause.message : "The record cannot be built.", { cause });
    }
  }

  /**
   * Returns the log's edge, if it is usable, and the terms of all waiting leaves, if no other process has appended, or
   * erased, since. The caller may change the edge: the log is forgotten until it is remembered again.
   */
  recall(head: LogState): Partial<Pick<RememberedLog, "edge" | "waiting">> {
    const known = this.#remembered.get(head.tenantId);
    if (known === undefined) return {};
    this.#remembered.delete(head.tenantId);
    const { edge, root, waiting } = known;
    return { ...(isUsable(edge, root, head) && { edge }), ...(sameHash(root, head.root) && { waiting }) };
  }

  /** Remembers a log as its head is, if the edge is known. Must be called after the commit. */
  remember({ log: { tenantId, root }, edge, waiting }: AppendedLog): void {
    if (edge !== undefined) this.#remembered.set(tenantId, { edge, root, waiting });
  }

  /** Remembers logs, and advances the anchor to them. Must be called after the commit. */
  keep(appended: readonly AppendedLog[]): void {
    for (const each of appended) this.remember(each);
    const logs = appended.map(({ log }) => log);
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

/** Keeps the name of a new log. */
export const nameLog = "INSERT INTO log_names (name, tenant_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const openLog = `INSERT INTO log_heads (tenant_id, origin, size, root, last_recorded_at_ms, key_position)
  VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`;
/** Compare-and-swap of heads. */
const moveHeads: TenantStatement = {
  ofOne: `UPDATE log_heads SET size = $2, root = $3, last_recorded_at_ms = $4, key_position = $5
     WHERE tenant_id = $1 AND size = $6 AND root = $7`,
  ofMany: `UPDATE log_heads
       SET size = next.size, root = next.root, last_recorded_at_ms = next.recorded_at_ms,
           key_position = next.key_position
      FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::integer[], $6::bigint[], $7::bytea[])
        AS next (tenant_id, size, root, recorded_at_ms, key_position, size_before, root_before)
     WHERE log_heads.tenant_id = next.tenant_id
       AND log_heads.size = next.size_before AND log_heads.root = next.root_before`,
};
const touchHeads = onTenants(
  (isOwn) => `UPDATE log_heads SET last_recorded_at_ms = last_recorded_at_ms WHERE ${isOwn}`,
);

/** Opens a log. Resolves with false if the tenant has one already. */
export async function insertHead(
  queries: Queries,
  { tenantId, origin, size, root, lastRecordedAtMs, keyPosition }: StoredHead,
): Promise<boolean> {
  const values = [tenantId, origin, size, root, lastRecordedAtMs, keyPosition];
  return (await queries.query(openLog, values)).count === 1;
}

/** A write that changes nothing: its commit makes durable what was read before. */
export async function touch(queries: Queries, tenants: readonly TenantId[]): Promise<void> {
  if (tenants.length > 0) await queryRows(queries, touchHeads, tenants.map(toRow));
}

/** The rows of a tenant's append. */
export interface OwnRows {
  /** The head before them; undefined if it was inserted with the new log. */
  readonly before: StoredHead | undefined;
  /** The head with them. */
  readonly head: StoredHead;
  readonly entries: readonly SealedEntry[];
  readonly tiles: readonly WrittenTile[];
  readonly calls: KeptCalls;
  readonly search: SearchAddition;
}

/** Writes the rows of different tenants. Resolves with false if a head was moved meanwhile. */
export async function writeRows(transaction: Transaction, all: readonly OwnRows[], nowMs: number): Promise<boolean> {
  const moves = all.flatMap(({ before, head }) =>
    before === undefined
      ? []
      : [
          [
            head.tenantId,
            ...[head.size, head.root, head.lastRecordedAtMs, head.keyPosition],
            ...[before.size, before.root],
          ] as const,
        ],
  );
  const [moved] = await Promise.all([
    moves.length === 0 ? 0 : transaction.each(moveHeads, moves),
    transaction.insert(
      tables.entries,
      all.flatMap(({ head: { tenantId }, entries }) =>
        entries.map(({ leafIndex, recordId, leaf, sealed }) => [tenantId, leafIndex, recordId, leaf, sealed]),
      ),
    ),
    transaction.insert(
      tables.openings,
      all.flatMap(({ head: { tenantId }, entries }) =>
        entries.map(({ recordId, opening }) => [tenantId, recordId, opening]),
      ),
    ),
    transaction.insert(
      tables.tiles,
      all.flatMap(({ head: { tenantId }, tiles }) =>
        tiles.map(({ level, index, hashes }) => [tenantId, level, index, hashes]),
      ),
    ),
    keepAnswers(transaction, all, nowMs),
    addSearch(
      transaction,
      all.map(({ head: { tenantId }, search }) => ({ tenantId, ...search })),
    ),
  ]);
  return moved === moves.length;
}
