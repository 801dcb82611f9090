/**
 * How many calls are worked on at once. Up to a limit calls start as they come; beyond it they wait as they arrived,
 * before anything was done for them, and start in an order that is fair between tenants, and between addresses for
 * those whose tenant is not known yet. What waits for too long, or has no room to wait, is refused.
 *
 * A call that waits costs its headers in memory and no time. Its caller sends nothing else on that connection or stream
 * meanwhile, so that an overload is slowed down to what can be done, where refusing at once would invite the next try.
 */
import { overloaded } from "../../base/errors.ts";
import { callerGone } from "../calls/deadline.ts";
import { operatorGroup, probeGroup } from "./accounts.ts";
import type { AdmissionMachine } from "./machine.ts";
import { type Account, type Waiter, WaitQueue } from "./wait-queue.ts";

/** Bounds of admission. */
export interface AdmissionLimits {
  /** Calls worked on at once, at least: enough for commits that many share, few enough to be done in a moment. */
  readonly minAtOnce: number;
  /** The most at once, where the event loop stands idle while calls wait for something else, such as a slow store. */
  readonly maxAtOnce: number;
  /** Calls begun in one turn of the event loop, so that those who come meanwhile are seen. */
  readonly maxStartsPerTurn: number;
  /** Calls refused in one turn for having waited: what is refused must never leave no time for what is done. */
  readonly maxRefusalsPerTurn: number;
  /** A call that takes longer waits for something else than us. It counts for its group only. Milliseconds. */
  readonly stalledAfterMs: number;
  /** Calls that wait at once; some KiB of headers each. */
  readonly maxWaiting: number;
  /** Longest wait in milliseconds. */
  readonly maxWaitMs: number;
}

export const defaultAdmissionLimits: AdmissionLimits = {
  minAtOnce: 64,
  maxAtOnce: 2048,
  maxStartsPerTurn: 16,
  maxRefusalsPerTurn: 8,
  stalledAfterMs: 250,
  maxWaiting: 8192,
  maxWaitMs: 1000,
};

const sweepMs = 50;
/** Above this share the event loop is full; below the lower one more calls at once would find it idle. */
const fullShare = 0.97;
const idleShare = 0.9;

/**
 * What part of the limits one group has while others have work too: all of them wait for what is begun. The same part of
 * a group's limit is the most that one of its members has.
 */
const sharedPart = 0.25;
/** How long it is remembered that others have work, in milliseconds. */
const sharedForMs = 1_000;

/** One call's ticket, from its headers to its end. */
export interface AdmissionTicket {
  /** Enters: calls `start` or `refuse`, once, now or later; neither where the call leaves first. */
  enter(): void;
  /** How long it waited before it was started, in milliseconds. */
  readonly waitedMs: number;
  /** Its tenant is known now. */
  belongsTo(group: string): void;
  /** It waits for its caller: to send a body or the next items, or to read its answer. It has no place meanwhile. */
  park(): void;
  /** Resolves when it may go on, in its turn. Rejects with `overloaded`, or with `canceled` once it has left. */
  resume(): Promise<void>;
  /** It is over, however it ended, and stays so. */
  leave(): void;
}

/**
 * Where a call is. `running` and `stalled` are those that have a place, and count for their group and member.
 *
 * ```
 * new ──enter──► waiting ──► running ──► stalled        a call that may begin at once does not wait
 *                  ▲            │           │
 *                resume         └──park─────┴──► parked
 *                  └──────────────────────────────┘
 * each of them ──leave, refusal──► over, which is the end
 * ```
 */
type State = "new" | "waiting" | "running" | "stalled" | "parked" | "over";

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #machine: AdmissionMachine;
  readonly #queue = new WaitQueue<Entry>();
  /** Those who wait, in the order in which they came. */
  readonly #byAge = new Set<Entry>();
  /** Calls worked on, stalled ones left out, in the order of their starts. */
  readonly #running = new Set<Entry>();
  /** Calls that have a place, by group, and by group and member. */
  readonly #started = new Map<string, number>();
  readonly #moves: Moves = {
    enter: (entry) => this.#enter(entry),
    regroup: (entry, group) => this.#regroup(entry, group),
    leave: (entry, next) => this.#leave(entry, next),
  };
  #atOnce: number;
  #startsThisTurn = 0;
  readonly #startsThisTurnOf = new Map<string, number>();
  #turnScheduled = false;
  #stopSweep: (() => void) | undefined;
  /** Whose call was over last, and until when it is taken that there is more than one group. */
  #lastGroup: string | undefined;
  #sharedUntilMs = 0;

  constructor(limits: AdmissionLimits, machine: AdmissionMachine) {
    this.#limits = limits;
    this.#machine = machine;
    this.#atOnce = limits.minAtOnce;
  }

  /** How many calls wait for their turn. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** How many calls have a place, those on the operator listener left out. */
  get places(): number {
    let places = 0;
    for (const [name, count] of this.#started)
      if (!name.includes(memberMark) && name !== operatorGroup && name !== probeGroup) places += count;
    return places;
  }

  /** Makes the ticket of one call, which has yet to enter. */
  ticket(account: Account, start: () => void, refuse: () => void): AdmissionTicket {
    return new Entry(this.#moves, account, start, refuse);
  }

  #enter(entry: Entry): void {
    const { group, member } = entry.account;
    if (this.#queue.sizeOf(group) === 0 && this.#may(group, member)) this.#start(entry);
    else if (this.#queue.size < this.#limits.maxWaiting || this.#makeSpace(entry.account)) this.#wait(entry);
    else this.#refuse(entry);
  }

  #wait(entry: Entry): void {
    entry.state = "waiting";
    entry.sinceMs = this.#machine.nowMs();
    this.#queue.add(entry);
    this.#byAge.add(entry);
    this.#stopSweep ??= this.#startSweep();
    this.#scheduleTurn();
  }

  /**
   * Whether one more call of the group, and of its member, may be worked on. A group alone may take the whole limit; then
   * a half more is there for groups that have next to nothing, so that they need not wait until one of its calls is over.
   */
  #may(group: string, member = ""): boolean {
    if (!this.#mayThisTurn(group)) return false;
    if (member !== "" && this.#startedOf(memberName(group, member)) >= partOf(this.#mostOfOne())) return false;
    const started = this.#startedOf(group);
    if (this.#running.size < this.#atOnce) return started < this.#mostOfOne();
    return this.#running.size < this.#atOnce * 1.5 && started < this.#atOnce / 8;
  }

  /**
   * All that one group may have at once. While others have work it is a part of the least: where the limit has risen
   * because calls wait for the store, more of one group's would make commits that everybody waits for longer.
   */
  #mostOfOne(): number {
    return this.#isShared ? partOf(this.#limits.minAtOnce) : this.#atOnce;
  }

  /**
   * Whether one more call of the group may be begun in this turn. While others have work, one group's are few, so that
   * turns are short, and take nothing from the others': whoever has waited through a long turn catches up in the next.
   */
  #mayThisTurn(group: string): boolean {
    const { maxStartsPerTurn } = this.#limits;
    if (this.#startsThisTurn >= maxStartsPerTurn) return false;
    return !this.#isShared || (this.#startsThisTurnOf.get(group) ?? 0) < partOf(maxStartsPerTurn);
  }

  /** Whether more than one group has work. */
  get #isShared(): boolean {
    return this.#machine.nowMs() < this.#sharedUntilMs;
  }

  #start(entry: Entry): void {
    const { account } = entry;
    const { group } = account;
    const nowMs = this.#machine.nowMs();
    if (entry.state === "waiting") entry.waitedMs = nowMs - entry.sinceMs;
    entry.state = "running";
    entry.sinceMs = nowMs;
    this.#running.add(entry);
    this.#count(account, 1);
    this.#startsThisTurn += 1;
    this.#startsThisTurnOf.set(group, (this.#startsThisTurnOf.get(group) ?? 0) + 1);
    this.#scheduleTurn();
    entry.start();
  }

  /** Gives up its place, or its turn. */
  #leave(entry: Entry, next: "parked" | "over"): void {
    const { state, gone } = entry;
    if (state === "over" || state === next) return;
    entry.rest(next);
    if (state === "waiting") {
      this.#queue.delete(entry);
      this.#byAge.delete(entry);
      gone();
    } else if (hasPlace(state)) {
      const { account } = entry;
      this.#running.delete(entry);
      this.#count(account, -1);
      if (account.group !== (this.#lastGroup ?? account.group))
        this.#sharedUntilMs = this.#machine.nowMs() + sharedForMs;
      this.#lastGroup = account.group;
    }
    if (this.#queue.size > 0) this.#scheduleTurn();
    else this.#endSweep();
  }

  #refuse(entry: Entry): void {
    const { refuse } = entry;
    this.#queue.delete(entry);
    this.#byAge.delete(entry);
    entry.rest("over");
    refuse();
  }

  #startedOf(name: string): number {
    return this.#started.get(name) ?? 0;
  }

  #count({ group, member }: Account, change: 1 | -1): void {
    for (const name of member === "" ? [group] : [group, memberName(group, member)]) {
      const count = this.#startedOf(name) + change;
      if (count > 0) this.#started.set(name, count);
      else this.#started.delete(name);
    }
  }

  #regroup(entry: Entry, group: string): void {
    const { account, state } = entry;
    if (account.group === group) return;
    if (state === "waiting") this.#queue.delete(entry);
    entry.account = { group, member: "" };
    if (state === "waiting") this.#queue.add(entry);
    if (!hasPlace(state)) return;
    this.#count(account, -1);
    this.#count(entry.account, 1);
  }

  /** Refuses one of the largest group's calls; where that is the group that asks for room, one of a larger member's. */
  #makeSpace(account: Account): boolean {
    const largest = this.#queue.largestGroup();
    const victim =
      largest === account.group ? this.#queue.takeFromLarger(account) : this.#queue.take((name) => name === largest);
    if (victim === undefined) return false;
    this.#refuse(victim);
    return true;
  }

  #scheduleTurn(): void {
    if (this.#turnScheduled) return;
    this.#turnScheduled = true;
    this.#machine.nextTurn(() => {
      this.#turnScheduled = false;
      this.#startsThisTurn = 0;
      this.#startsThisTurnOf.clear();
      this.#startWaiting();
      this.#refuseExpired();
      if (this.#queue.size === 0) this.#endSweep();
    });
  }

  #startWaiting(): void {
    for (;;) {
      const next = this.#queue.take((group, member) => this.#may(group, member));
      if (next === undefined) return;
      this.#byAge.delete(next);
      this.#start(next);
    }
  }

  #refuseExpired(): void {
    const expiredSinceMs = this.#machine.nowMs() - this.#limits.maxWaitMs;
    let refused = 0;
    for (const entry of this.#byAge) {
      if (entry.sinceMs > expiredSinceMs || refused === this.#limits.maxRefusalsPerTurn) break;
      this.#refuse(entry);
      refused += 1;
    }
    if (refused === this.#limits.maxRefusalsPerTurn) this.#scheduleTurn();
  }

  #startSweep(): () => void {
    this.#machine.busyShare();
    return this.#machine.every(sweepMs, () => this.#sweep());
  }

  #endSweep(): void {
    this.#stopSweep?.();
    this.#stopSweep = undefined;
  }

  #sweep(): void {
    const nowMs = this.#machine.nowMs();
    for (const entry of this.#running) {
      if (nowMs - entry.sinceMs < this.#limits.stalledAfterMs) break;
      entry.state = "stalled";
      this.#running.delete(entry);
    }
    this.#adapt(this.#machine.busyShare());
    if (this.#queue.size > 0) this.#scheduleTurn();
  }

  /** More at once while the event loop stands idle although calls wait; fewer, down to the least, while it is full. */
  #adapt(busyShare: number): void {
    const { minAtOnce, maxAtOnce } = this.#limits;
    if (busyShare < idleShare) this.#atOnce = Math.min(maxAtOnce, Math.ceil(this.#atOnce * 1.25));
    else if (busyShare > fullShare) this.#atOnce = Math.max(minAtOnce, Math.floor(this.#atOnce * 0.8));
  }
}

function partOf(limit: number): number {
  return Math.max(1, Math.floor(limit * sharedPart));
}

/** Between a group and its member; no name of either has one. */
const memberMark = "\n";

function memberName(group: string, member: string): string {
  return group + memberMark + member;
}

function hasPlace(state: State): boolean {
  return state === "running" || state === "stalled";
}

function nothing(): void {}

/** What happens to a call in its admission. */
interface Moves {
  readonly enter: (entry: Entry) => void;
  readonly regroup: (entry: Entry, group: string) => void;
  readonly leave: (entry: Entry, next: "parked" | "over") => void;
}

class Entry implements Waiter, AdmissionTicket {
  readonly #moves: Moves;
  account: Account;
  start: () => void;
  refuse: () => void;
  /** In place of both, where it leaves while it waits. */
  gone = nothing;
  state: State = "new";
  /** When it came into its state. */
  sinceMs = 0;
  waitedMs = 0;

  constructor(moves: Moves, account: Account, start: () => void, refuse: () => void) {
    this.#moves = moves;
    this.account = account;
    this.start = start;
    this.refuse = refuse;
  }

  enter(): void {
    if (this.state === "new") this.#moves.enter(this);
  }

  /** What it was for is let go of: tables that the sets of entries have outgrown keep entries for longer than their calls. */
  rest(state: "parked" | "over"): void {
    this.state = state;
    this.start = nothing;
    this.refuse = nothing;
    this.gone = nothing;
  }

  belongsTo(group: string): void {
    this.#moves.regroup(this, group);
  }

  park(): void {
    if (hasPlace(this.state)) this.#moves.leave(this, "parked");
  }

  resume(): Promise<void> {
    if (hasPlace(this.state)) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const gone = () => reject(callerGone);
      if (this.state !== "parked") return gone();
      this.start = resolve;
      this.refuse = () => reject(overloaded());
      this.gone = gone;
      this.#moves.enter(this);
    });
  }

  leave(): void {
    this.#moves.leave(this, "over");
  }
}
