/** Calls that wait for their turn, in an order that is fair between those who sent them. */

/** Whom a call counts for: a group takes its turns beside other groups, its members take theirs within it. */
export interface Account {
  readonly group: string;
  readonly member: string;
}

/** Waits on somebody's account. */
export interface Waiter {
  readonly account: Account;
}

/** Calls of one group: those of each member in the order in which they came. */
interface Group<W> {
  readonly members: Map<string, Set<W>>;
  size: number;
}

/** Members that are looked at to find one with many calls: more would make every refusal cost more. */
const maxLookedAt = 64;

/**
 * Round robin over groups, and within each over its members: who sends much waits behind himself. A map keeps the order
 * of insertion, so that whoever had a turn goes to its end.
 */
export class WaitQueue<W extends Waiter> {
  readonly #groups = new Map<string, Group<W>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many calls of the group wait. */
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

  /** Does nothing where it does not wait here. */
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

  /**
   * Takes out the call whose turn it is, among the groups that may have one now, and their members that may. `may` is
   * asked of a group alone first: members of one that may not are not looked at.
   */
  take(may: (group: string, member?: string) => boolean): W | undefined {
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
   * Takes out a call of a member that has more than the account's own and one more, so that one who sends much leaves
   * room to its neighbours. Looks at some members only: where many have little, nobody has too much.
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

  /** The group with most calls here, where there is any. */
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
