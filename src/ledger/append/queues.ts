/** The appender's queues: one per tenant, bounded, served round-robin. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { Span } from "../../base/trace.ts";
import type { Appended, ShownOfRecord } from "../ports/ledger.ts";
import type { Patience, TenantBatch } from "../ports/store.ts";

/** One record that waits to be written, and who waits for it. */
export interface Waiting {
  readonly recordId: RecordId;
  /** The record as `recordText` writes it. */
  readonly json: string;
  readonly sizeBytes: number;
  /** What its receipt needs to show. Default: all. */
  readonly shown?: ShownOfRecord;
  /** How many records, this one and those after it, one write must carry. Default: this one alone. */
  readonly together?: number;
  /** Of the append; absent where nothing is traced. */
  readonly span?: Span | undefined;
  /** When it began to wait, in milliseconds since some moment. */
  readonly sinceMs: number;
  /** Until when its caller waits for its write, as `performance.now` counts. */
  readonly endsAtMs: number;
  /** Its write has ended: what it waits for from now on has no time limit here. */
  written(): void;
  /** Whether its caller waits no longer. */
  isOver(): boolean;
  resolve(appended: Appended): void;
  reject(error: unknown): void;
}

/** The span of a write that carries shares; undefined where none of their appends is exported. */
export function commitSpan(shares: readonly Share[]): Span | undefined {
  const spans = shares.flatMap(({ waiting }) => waiting.flatMap(({ span }) => span ?? []));
  const commit = spans[0]?.shared("ledger.commit", spans);
  const records = shares.reduce((sum, { waiting }) => sum + waiting.length, 0);
  commit?.set({ "svc.commit.records": records, "svc.commit.tenants": shares.length });
  return commit;
}

/** What one write takes of one tenant, in order; never empty. */
export interface Share {
  readonly tenantId: TenantId;
  readonly waiting: readonly Waiting[];
}

/** Bounds of the queues and of one write. */
export interface QueueLimits {
  readonly maxQueuedPerTenant: number;
  /** Over all tenants, so that many tenants together cannot exhaust the memory. */
  readonly maxQueuedBytes: number;
  readonly maxTenantsPerWrite: number;
  readonly maxRecordsPerWrite: number;
  /** A write takes at least one record, or all that must go together, whatever their size. */
  readonly maxBytesPerWrite: number;
  /** More records that one write must carry get a write of their own, so that no other tenant waits for its end. */
  readonly maxTogetherShared: number;
}

/** The share as a store takes it. */
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

  /** @param patienceFor how patient the write of a tenant is; asked when it becomes ready */
  constructor(limits: QueueLimits, patienceFor: (tenantId: TenantId) => Patience) {
    this.#limits = limits;
    this.#patienceFor = patienceFor;
  }

  /** Whether a write that is so patient has something to take now. */
  hasReady(patience: Patience): boolean {
    return this.#ready[patience].size > 0;
  }

  /** How many records wait. */
  get size(): number {
    let size = 0;
    for (const { waiting } of this.#queues.values()) size += waiting.length;
    return size;
  }

  /** Whether nothing waits and nothing is being written. */
  get isIdle(): boolean {
    return this.#queues.size === 0 && this.#busy.size === 0;
  }

  /**
   * Returns false, and queues nothing, when the tenant's queue or all of them together are full. A tenant may hold as
   * many bytes as are left for everybody else, and no more: one alone gets a half, two a third each, and somebody new
   * always finds room (dynamic thresholds, Choudhury and Hahne 1998). Records that one write must carry are queued where
   * there is room for one, since they are too many for what is left more often than not.
   *
   * @param waiting one record, or those that one write must carry
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
   * Takes what one write shall carry: a record of each ready tenant in turn, until the write is full. A tenant with a
   * long queue so gets what the others leave and never delays them by more than one write. A write that is as patient as
   * can be is of one tenant.
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

  /**
   * Gives back what was taken and not written, and is waited for still: it is the first that is taken again, once the
   * tenant is released.
   */
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

  /** The tenants' shares have been written or refused: each may be served again, after those that wait already. */
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

  /** Takes a record out, where it is in a queue still. */
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

  /** One that was ready keeps its turn. */
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

/** Two halves, by tenant while there are several; undefined for a single record. */
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
