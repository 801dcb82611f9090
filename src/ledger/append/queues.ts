/** The appender's queues: one per tenant, bounded, served round-robin. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { Appended } from "../ports/ledger.ts";

/** One record that waits to be written, and who waits for it. */
export interface Waiting {
  readonly recordId: RecordId;
  /** The record as `recordText` writes it. */
  readonly json: string;
  readonly sizeBytes: number;
  resolve(appended: Appended): void;
  reject(error: unknown): void;
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
  /** A write takes at least one record, whatever its size. */
  readonly maxBytesPerWrite: number;
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
  readonly #ready = new Set<TenantQueue>();
  /** As `#ready`, of those who get writes of their own. */
  readonly #readyApart = new Set<TenantQueue>();
  readonly #isApart: (tenantId: TenantId) => boolean;
  readonly #busy = new Set<TenantId>();
  #queuedBytes = 0;

  /** @param isApart whether a tenant gets a write of its own; asked when it becomes ready */
  constructor(limits: QueueLimits, isApart: (tenantId: TenantId) => boolean = () => false) {
    this.#limits = limits;
    this.#isApart = isApart;
  }

  /** Whether `take` finds something now. */
  get hasReady(): boolean {
    return this.#ready.size > 0;
  }

  /** Whether `takeApart` does. */
  get hasReadyApart(): boolean {
    return this.#readyApart.size > 0;
  }

  /** Whether nothing waits and nothing is being written. */
  get isIdle(): boolean {
    return this.#queues.size === 0 && this.#busy.size === 0;
  }

  /**
   * Returns false, and queues nothing, when the tenant's queue or all of them together are full. A tenant may hold as
   * many bytes as are left for everybody else, and no more: one alone gets a half, two a third each, and somebody new
   * always finds room (dynamic thresholds, Choudhury and Hahne 1998).
   */
  push(tenantId: TenantId, waiting: Waiting): boolean {
    const queue = this.#queues.get(tenantId) ?? { tenantId, waiting: [], queuedBytes: 0 };
    if (queue.waiting.length >= this.#limits.maxQueuedPerTenant) return false;
    const leftBytes = this.#limits.maxQueuedBytes - this.#queuedBytes - waiting.sizeBytes;
    if (leftBytes < queue.queuedBytes) return false;
    queue.waiting.push(waiting);
    queue.queuedBytes += waiting.sizeBytes;
    this.#queuedBytes += waiting.sizeBytes;
    this.#queues.set(tenantId, queue);
    if (!this.#busy.has(tenantId)) this.#makeReady(queue);
    return true;
  }

  /**
   * Takes what one write shall carry: a record of each ready tenant in turn, until the write is full. A tenant with a
   * long queue so gets what the others leave and never delays them by more than one write.
   */
  take(): readonly Share[] {
    return this.#take([...this.#ready].slice(0, this.#limits.maxTenantsPerWrite));
  }

  /** Takes what one write shall carry of the next tenant that gets one of its own. */
  takeApart(): readonly Share[] {
    return this.#take([...this.#readyApart].slice(0, 1));
  }

  /** Gives back what was taken and not written: it is the first that is taken again, once the tenant is released. */
  giveBack({ tenantId, waiting }: Share): void {
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
    this.#ready.clear();
    this.#readyApart.clear();
    this.#queuedBytes = 0;
    return all;
  }

  #drainOne(queue: TenantQueue | undefined): Waiting[] {
    if (queue === undefined) return [];
    this.#queues.delete(queue.tenantId);
    this.#ready.delete(queue);
    this.#readyApart.delete(queue);
    for (const { sizeBytes } of queue.waiting) this.#queuedBytes -= sizeBytes;
    return queue.waiting;
  }

  #makeReady(queue: TenantQueue): void {
    const isApart = this.#isApart(queue.tenantId);
    (isApart ? this.#ready : this.#readyApart).delete(queue);
    (isApart ? this.#readyApart : this.#ready).add(queue);
  }

  #take(queues: readonly TenantQueue[]): readonly Share[] {
    const shares: Share[] = [];
    for (const [queue, count] of this.#countInTurn(queues)) {
      const waiting = queue.waiting.splice(0, count);
      for (const { sizeBytes } of waiting) {
        queue.queuedBytes -= sizeBytes;
        this.#queuedBytes -= sizeBytes;
      }
      if (queue.waiting.length === 0) this.#queues.delete(queue.tenantId);
      this.#ready.delete(queue);
      this.#readyApart.delete(queue);
      this.#busy.add(queue.tenantId);
      shares.push({ tenantId: queue.tenantId, waiting });
    }
    return shares;
  }

  #countInTurn(queues: readonly TenantQueue[]): Map<TenantQueue, number> {
    const { maxRecordsPerWrite, maxBytesPerWrite } = this.#limits;
    const counts = new Map<TenantQueue, number>();
    let turn = queues;
    let records = 0;
    let bytes = 0;
    while (turn.length > 0) {
      for (const queue of turn) {
        const count = counts.get(queue) ?? 0;
        bytes += queue.waiting[count]?.sizeBytes ?? 0;
        if (records === maxRecordsPerWrite || (records > 0 && bytes > maxBytesPerWrite)) return counts;
        counts.set(queue, count + 1);
        records += 1;
      }
      turn = turn.filter((queue) => (counts.get(queue) ?? 0) < queue.waiting.length);
    }
    return counts;
  }
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
