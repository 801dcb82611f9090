/** The appender's queues: one per tenant, bounded, served round-robin. */
import type { TenantId } from "../../base/ids.ts";
import type { Span } from "../../base/trace.ts";
import type { Appended, ShownOfRecord } from "../ports/ledger.ts";
import type { EncodedRecord, TenantBatch } from "../ports/store.ts";
import type { AppenderLimits } from "./limits.ts";

/** A record for the queue. */
export interface QueuedRecord {
  readonly record: EncodedRecord;
  readonly sizeBytes: number;
  /** The members that its receipt shows. Default: all. */
  readonly shown?: ShownOfRecord;
}

/** A record in the queue, and the promise of its caller. */
export interface Waiting extends QueuedRecord, PromiseWithResolvers<Appended> {
  /** How many records, from this one on, must share one write. Default: 1. */
  readonly together?: number;
  /** Span of the append; absent if it is not traced. */
  readonly span?: Span | undefined;
  /** When it began to wait, and when its caller stops waiting, in `performance.now` time. */
  readonly sinceMs: number;
  readonly endsAtMs: number;
  /** Called when its write has ended: no time limit applies after that. */
  written: () => void;
}

/** Records of one tenant in one write, in order; never empty. */
export interface Share {
  readonly tenantId: TenantId;
  readonly waiting: readonly Waiting[];
}

export function batchOf({ tenantId, waiting }: Share): TenantBatch {
  const records = waiting.map(({ record }) => record);
  const endsAtMs = waiting.reduce((first, record) => Math.min(first, record.endsAtMs), Number.POSITIVE_INFINITY);
  if (waiting.every(({ shown }) => shown === undefined)) return { tenantId, records, endsAtMs };
  return { tenantId, records, endsAtMs, shown: waiting.map(({ shown = "all" }) => shown) };
}

interface TenantQueue {
  readonly tenantId: TenantId;
  readonly waiting: Waiting[];
  queuedBytes: number;
}

/** Queues per tenant. A tenant whose share was taken is not served again until it is released. */
export class TenantQueues {
  readonly #limits: AppenderLimits;
  readonly #queues = new Map<TenantId, TenantQueue>();
  /** Tenants with records to write, in round-robin order: a `Set` keeps the order of insertion. */
  readonly #ready = new Set<TenantQueue>();
  readonly #busy = new Set<TenantId>();
  #queuedBytes = 0;

  constructor(limits: AppenderLimits) {
    this.#limits = limits;
  }

  /** Whether a write has records to take. */
  get hasReady(): boolean {
    return this.#ready.size > 0;
  }

  get size(): number {
    let size = 0;
    for (const { waiting } of this.#queues.values()) size += waiting.length;
    return size;
  }

  get isIdle(): boolean {
    return this.#queues.size === 0 && this.#busy.size === 0;
  }

  /**
   * Queues records. Returns false, and queues nothing, if the tenant's queue or all of them together are full. A tenant
   * may hold at most as many bytes as remain free: one alone gets a half, two a third each, so a new tenant always
   * finds room (dynamic thresholds, Choudhury and Hahne 1998). A group needs room for one record only, since a whole
   * group is often larger than the remainder.
   *
   * @param waiting one record, or a group for one write
   */
  push(tenantId: TenantId, waiting: readonly Waiting[]): boolean {
    const queue = this.#queues.get(tenantId) ?? { tenantId, waiting: [], queuedBytes: 0 };
    if (queue.waiting.length >= this.#limits.maxQueuedPerTenant) return false;
    const sizeBytes = bytesOf(waiting);
    const leftBytes = this.#limits.maxQueuedBytes - this.#queuedBytes - sizeBytes;
    if (leftBytes < queue.queuedBytes) return false;
    queue.waiting.push(...waiting);
    this.#count(queue, sizeBytes);
    this.#queues.set(tenantId, queue);
    if (!this.#busy.has(tenantId)) this.#ready.add(queue);
    return true;
  }

  /**
   * Takes the records of one write: one of each ready tenant in turn, until the write is full. A tenant with a long
   * queue gets the remainder, and delays the others by at most one write.
   */
  take(): readonly Share[] {
    const shares: Share[] = [];
    for (const [queue, count] of this.#countInTurn()) {
      const waiting = queue.waiting.splice(0, count);
      this.#count(queue, -bytesOf(waiting));
      if (queue.waiting.length === 0) this.#queues.delete(queue.tenantId);
      this.#ready.delete(queue);
      this.#busy.add(queue.tenantId);
      shares.push({ tenantId: queue.tenantId, waiting });
    }
    return shares;
  }

  /** Releases a tenant whose share was written or refused. It is ready again, behind those that wait. */
  release(tenantId: TenantId): void {
    this.#busy.delete(tenantId);
    const queue = this.#queues.get(tenantId);
    if (queue !== undefined) this.#ready.add(queue);
  }

  /** Empties every queue, and returns what waited. */
  drain(): readonly Waiting[] {
    const drained = [...this.#queues.values()].flatMap(({ waiting }) => waiting);
    this.#queues.clear();
    this.#ready.clear();
    this.#queuedBytes = 0;
    return drained;
  }

  /** Removes a record, if it is still queued. */
  remove(tenantId: TenantId, record: Waiting): void {
    const queue = this.#queues.get(tenantId);
    const at = queue?.waiting.indexOf(record) ?? -1;
    if (queue === undefined || at < 0) return;
    queue.waiting.splice(at, 1);
    this.#count(queue, -record.sizeBytes);
    if (queue.waiting.length > 0) return;
    this.#queues.delete(tenantId);
    this.#ready.delete(queue);
  }

  #count(queue: TenantQueue, bytes: number): void {
    queue.queuedBytes += bytes;
    this.#queuedBytes += bytes;
  }

  #countInTurn(): Map<TenantQueue, number> {
    const { maxRecordsPerWrite, maxBytesPerWrite } = this.#limits;
    const counts = new Map<TenantQueue, number>();
    let turn = [...this.#ready];
    let records = 0;
    let bytes = 0;
    while (turn.length > 0) {
      for (const queue of turn) {
        const count = counts.get(queue) ?? 0;
        const together = queue.waiting[count]?.together ?? 1;
        bytes += bytesOf(queue.waiting.slice(count, count + together));
        records += together;
        if (counts.size > 0 && (records > maxRecordsPerWrite || bytes > maxBytesPerWrite)) return counts;
        counts.set(queue, count + together);
      }
      turn = turn.filter((queue) => (counts.get(queue) ?? 0) < queue.waiting.length);
    }
    return counts;
  }
}

function bytesOf(waiting: readonly Waiting[]): number {
  return waiting.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}
