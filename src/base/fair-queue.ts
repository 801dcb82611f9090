/** A queue that is fair between groups and their members. */
import { ServiceError } from "./errors.ts";

/** The group and member that something counts for. Groups take turns; so do the members of a group. */
export interface Account {
  readonly group: string;
  readonly member: string;
}

export interface Waiter {
  readonly account: Account;
}

/** Those of one group: by member, oldest first. */
interface Group<W> {
  readonly members: Map<string, Set<W>>;
  size: number;
}

/** Members examined to find one with many calls; bounds the cost of a refusal. */
const maxLookedAt = 64;

/** Round robin over groups and their members: maps keep insertion order, and a turn ends with re-insertion. */
export class FairQueue<W extends Waiter> {
  readonly #groups = new Map<string, Group<W>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  sizeOf(group: string): number {
    return this.#groups.get(group)?.size ?? 0;
  }

  add(waiter: W): void {
    const { group: name, member } = waiter.account;
    const group = this.#groups.get(name) ?? { members: new Map(), size: 0 };
    if (group.size === 0) this.#groups.set(name, group);
    const waiters = group.members.get(member) ?? new Set();
    if (waiters.size === 0) group.members.set(member, waiters);
    waiters.add(waiter);
    group.size += 1;
    this.#size += 1;
  }

  /** Does nothing if the waiter is not queued. */
  delete(waiter: W): void {
    const { group: name, member } = waiter.account;
    const group = this.#groups.get(name);
    const waiters = group?.members.get(member);
    if (group === undefined || waiters?.delete(waiter) !== true) return;
    if (waiters.size === 0) group.members.delete(member);
    group.size -= 1;
    if (group.size === 0) this.#groups.delete(name);
    this.#size -= 1;
  }

  /** Removes and returns the next that may run. `may` is asked about the group first, then the member. */
  take(may: (group: string, member?: string) => boolean = () => true): W | undefined {
    for (const [name, group] of this.#groups) {
      if (!may(name)) continue;
      for (const [member, waiters] of group.members) {
        const [waiter] = waiters;
        if (waiter === undefined || !may(name, member)) continue;
        this.delete(waiter);
        if (waiters.size > 0) toEnd(group.members, member, waiters);
        if (group.size > 0) toEnd(this.#groups, name, group);
        return waiter;
      }
    }
    return undefined;
  }

  /**
   * Removes one of a member that has at least two more than the account's own, so that a member with many
   * makes room for others. Examines a limited number of members.
   */
  takeFromLarger({ group: name, member: own }: Account): W | undefined {
    const members = this.#groups.get(name)?.members ?? new Map<string, Set<W>>();
    let largest = { waiters: members.get(own) ?? new Set<W>(), size: (members.get(own)?.size ?? 0) + 1 };
    let lookedAt = 0;
    for (const waiters of members.values()) {
      if (waiters.size > largest.size) largest = { waiters, size: waiters.size };
      lookedAt += 1;
      if (lookedAt === maxLookedAt) break;
    }
    const [waiter] = largest.waiters;
    if (waiter === undefined || waiter.account.member === own) return undefined;
    this.delete(waiter);
    return waiter;
  }

  largestGroup(): string | undefined {
    let largest: string | undefined;
    for (const [name, { size }] of this.#groups)
      if (largest === undefined || size > this.sizeOf(largest)) largest = name;
    return largest;
  }
}

function toEnd<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
}

/** Bounds expensive work: a number of concurrent calls and of waiting ones; more are refused. */
export type Semaphore = ReturnType<typeof createSemaphore>;

/** Slots shared by several parties in turns, so that one party's load only delays itself. */
export type FairSemaphore = ReturnType<typeof createFairSemaphore>;

export interface FairLimits {
  readonly maximum: number;
  /** Waiting work of one party. */
  readonly maximumWaitingEach: number;
  /** Waiting work of all parties. */
  readonly maximumWaiting: number;
}

/** Creates a semaphore that serves calls in order, as those of one party. */
export function createSemaphore(maximum: number, maximumWaiting: number) {
  const slots = createFairSemaphore({ maximum, maximumWaitingEach: maximumWaiting, maximumWaiting });
  return { run: <T>(work: () => Promise<T>, signal: AbortSignal) => slots.run("", work, signal) };
}

/** Creates a semaphore that serves parties in turns, each in order. */
export function createFairSemaphore({ maximum, maximumWaitingEach, maximumWaiting }: FairLimits) {
  const queue = new FairQueue<Waiter & { readonly onTurn: () => void }>();
  let taken = 0;

  async function turn(party: string, signal: AbortSignal): Promise<void> {
    if (taken < maximum) {
      taken += 1;
      return;
    }
    if (queue.sizeOf(party) >= maximumWaitingEach)
      throw new ServiceError("rate_limited", "too many calls of this kind are waiting", { retryAfterSeconds: 1 });
    if (queue.size >= maximumWaiting)
      throw new ServiceError("overloaded", "too many calls of this kind are waiting", { retryAfterSeconds: 1 });
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        queue.delete(waiter);
        reject(signal.reason);
      };
      const onTurn = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const waiter = { account: { group: party, member: "" }, onTurn };
      queue.add(waiter);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** Gives the slot to the oldest call of the next party. */
  function pass(): void {
    const next = queue.take();
    if (next === undefined) taken -= 1;
    else next.onTurn();
  }

  return {
    /** Calls that wait for their turn. */
    get waiting() {
      return queue.size;
    },
    /**
     * Does the work in its party's turn, and settles as it does.
     * @param signal if aborted while it waits, the work is not done, and the call rejects with the signal's reason
     * @throws ServiceError `rate_limited` if too many of this party wait, `overloaded` if too many wait in total
     */
    async run<T>(party: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
      signal.throwIfAborted();
      await turn(party, signal);
      try {
        return await work();
      } finally {
        pass();
      }
    },
  };
}
