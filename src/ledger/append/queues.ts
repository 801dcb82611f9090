/** The appender's queues: one per tenant, bounded, served round-robin. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { Span } from "../../base/trace.ts";
import type { Appended, ShownOfRecord } from "../ports/ledger.ts";
import type { Patience, TenantBatch } from "../ports/store.ts";

export interface Waiting {
  readonly recordId: RecordId;
  /** The record as `recordText` writes it. */
  readonly json: string;
  readonly sizeBytes: number;
  /** The members that its receipt shows. Default: all. */
  readonly shown?: ShownOfRecord;
  /** How many records, from this one on, must share one write. Default: 1. */
  readonly together?: number;
  /** Span of the append; absent if it is not traced. */
  readonly span?: Span | undefined;
  /** When it began to wait, in milliseconds of a monotonic clock. */
  readonly sinceMs: number;
  /** When its caller stops waiting, in `performance.now` time. */
  readonly endsAtMs: number;
  /** Called when its write has ended: no time limit applies after that. */
  written(): void;
  /** Whether its caller has stopped waiting. */
  isOver(): boolean;
  resolve(appended: Appended): void;
  reject(error: unknown): void;
}

/** Begins the span of a write; undefined if none of its appends is exported. */
export function commitSpan(shares: readonly Share[]): Span | undefined {
  const spans = shares.flatMap(({ waiting }) => waiting.flatMap(({ span }) => span ?? []));
  const commit = spans[0]?.shared("ledger.commit", spans);
  const records = shares.reduce((sum, { waiting }) => sum + waiting.length, 0);
  commit?.set({ "svc.commit.records": records, "svc.commit.tenants": shares.length });
  return commit;
}

/** Records of one tenant in one write, in order; never empty. */
export interface Share {
  readonly tenantId: TenantId;
  readonly waiting: readonly Waiting[];
}

export interface QueueLimits {
  readonly maxQueuedPerTenant: number;
  /** Bound over all tenants, so that many tenants together cannot exhaust the memory. */
  readonly maxQueuedBytes: number;
  readonly maxTenantsPerWrite: number;
  readonly maxRecordsPerWrite: number;
  /** A write takes at least one record, or one whole group, whatever its size. */
  readonly maxBytesPerWrite: number;
  /** A larger group gets its own write, so that no other tenant waits for it. */
  readonly maxTogetherShared: number;
}

export function batchOf({ tenantId, waiting }: Share): TenantBatch {
  const records = waiting.map(({ json }) => json);
  if (waiting.every(({ shown }) => shown === undefined)) return { tenantId, records };
  return { tenantId, records, shown: waiting.map(({ shown = "all" }) => shown) };
}

interface TenantQueue {
  readonly tenantId: TenantId;
  waiting: Waiting[];
  queuedBytes: number;
}

/** Queues per tenant. A tenant whose share was taken is not served again until it is released. */
export class TenantQueues {
  readonly #limits: QueueLimits;
  readonly #queues = new Map<TenantId, TenantQueue>();
  /** Tenants with records to write, in round-robin order: a `Set` keeps the order of insertion. */
  readonly #ready: Readonly<Record<Patience, Set<TenantQueue>>> = {
    none: new Set(),
    moment: new Set(),
    full: new Set(),
  };
  readonly #patienceFor: (tenantId: TenantId) => Patience;
  readonly #busy = new Set<TenantId>();
  #queuedBytes = 0;

  /** @param patienceFor returns the patience of a tenant's next write; called when the tenant becomes ready */
  constructor(limits: QueueLimits, patienceFor: (tenantId: TenantId) => Patience) {
    this.#limits = limits;
    this.#patienceFor = patienceFor;
  }

  /** Whether a write of this patience has records to take. */
  hasReady(patience: Patience): boolean {
    return this.#ready[patience].size > 0;
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
  push(tenantId: TenantId, ...waiting: readonly Waiting[]): boolean {
    const queue = this.#queues.get(tenantId) ?? { tenantId, waiting: [], queuedBytes: 0 };
    if (queue.waiting.length >= this.#limits.maxQueuedPerTenant) return false;
    const sizeBytes = bytesOf(waiting);
    const leftBytes = this.#limits.maxQueuedBytes - this.#queuedBytes - sizeBytes;
    if (leftBytes < queue.queuedBytes) return false;
    queue.waiting.push(...waiting);
    queue.queuedBytes += sizeBytes;
    this.#queuedBytes += sizeBytes;
    this.#queues.set(tenantId, queue);
    if (!this.#busy.has(tenantId)) this.#makeReady(queue);
    return true;
  }

  /**
   * Takes the records of one write: one of each ready tenant in turn, until the write is full. A tenant with a long
   * queue gets the remainder, and delays the others by at most one write. A write of patience `full` has one tenant.
   */
  take(patience: Patience): readonly Share[] {
    const shares: Share[] = [];
    for (const [queue, count] of this.#countInTurn(patience)) {
      const waiting = queue.waiting.splice(0, count);
      for (const { sizeBytes } of waiting) {
        queue.queuedBytes -= sizeBytes;
        this.#queuedBytes -= sizeBytes;
      }
      if (queue.waiting.length === 0) this.#queues.delete(queue.tenantId);
      this.#unready(queue);
      this.#busy.add(queue.tenantId);
      shares.push({ tenantId: queue.tenantId, waiting });
    }
    return shares;
  }

  /** Returns records that were taken and not written to the front of their queue, if their callers still wait. */
  giveBack({ tenantId, waiting: taken }: Share): void {
    const waiting = taken.filter((record) => !record.isOver());
    if (waiting.length === 0) return;
    const queue = this.#queues.get(tenantId) ?? { tenantId, waiting: [], queuedBytes: 0 };
    queue.waiting = [...waiting, ...queue.waiting];
    for (const { sizeBytes } of waiting) {
      queue.queuedBytes += sizeBytes;
      this.#queuedBytes += sizeBytes;
    }
    this.#queues.set(tenantId, queue);
  }

  /** Releases tenants whose shares were written or refused. Each is ready again, behind those that wait. */
  release(shares: readonly Share[]): void {
    for (const { tenantId } of shares) {
      this.#busy.delete(tenantId);
      const queue = this.#queues.get(tenantId);
      if (queue !== undefined) this.#makeReady(queue);
    }
  }

  /** Empties every queue, or one tenant's, and returns what waited. */
  drain(tenantId?: TenantId): Waiting[] {
    if (tenantId !== undefined) return this.#drainOne(this.#queues.get(tenantId));
    const all = [...this.#queues.values()].flatMap((queue) => queue.waiting);
    this.#queues.clear();
    for (const ready of Object.values(this.#ready)) ready.clear();
    this.#queuedBytes = 0;
    return all;
  }

  /** Removes a record, if it is still queued. */
  remove(tenantId: TenantId, record: Waiting): void {
    const queue = this.#queues.get(tenantId);
    const at = queue?.waiting.indexOf(record) ?? -1;
    if (queue === undefined || at < 0) return;
    if (queue.waiting.length === 1) return void this.#drainOne(queue);
    queue.waiting.splice(at, 1);
    queue.queuedBytes -= record.sizeBytes;
    this.#queuedBytes -= record.sizeBytes;
  }

  #drainOne(queue: TenantQueue | undefined): Waiting[] {
    if (queue === undefined) return [];
    this.#queues.delete(queue.tenantId);
    this.#unready(queue);
    for (const { sizeBytes } of queue.waiting) this.#queuedBytes -= sizeBytes;
    return queue.waiting;
  }

  /** A ready tenant keeps its turn. */
  #makeReady(queue: TenantQueue): void {
    const isLarge = (queue.waiting[0]?.together ?? 1) > this.#limits.maxTogetherShared;
    const ready = this.#ready[isLarge ? "full" : this.#patienceFor(queue.tenantId)];
    if (ready.has(queue)) return;
    this.#unready(queue);
    ready.add(queue);
  }

  #unready(queue: TenantQueue): void {
    for (const ready of Object.values(this.#ready)) ready.delete(queue);
  }

  #countInTurn(patience: Patience): Map<TenantQueue, number> {
    const { maxTenantsPerWrite, maxRecordsPerWrite, maxBytesPerWrite } = this.#limits;
    const counts = new Map<TenantQueue, number>();
    let turn = [...this.#ready[patience]].slice(0, patience === "full" ? 1 : maxTenantsPerWrite);
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

/** Splits shares into halves, by tenant if there are several; undefined for a single record. */
export function halve(shares: readonly Share[]): readonly [readonly Share[], readonly Share[]] | undefined {
  if (shares.length > 1) {
    const middle = shares.length >> 1;
    return [shares.slice(0, middle), shares.slice(middle)];
  }
  const [share] = shares;
  if (share === undefined || share.waiting.length < 2) return undefined;
  const middle = share.waiting.length >> 1;
  const part = (waiting: readonly Waiting[]): readonly Share[] => [{ tenantId: share.tenantId, waiting }];
  return [part(share.waiting.slice(0, middle)), part(share.waiting.slice(middle))];
}
