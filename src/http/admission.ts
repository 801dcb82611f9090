/**
 * Limits how many calls run at once. Excess calls are queued before any work is done for them. The queue is fair
 * between tenants, and between addresses if the tenant is not known yet. A call is refused if the queue is full or its
 * wait is too long.
 *
 * A queued call costs the memory of its headers. HTTP flow control then slows its sender, whereas an immediate refusal
 * would invite a retry.
 */
import { performance } from "node:perf_hooks";
import { overloaded } from "../base/errors.ts";
import { type Account, FairQueue, type Waiter } from "../base/fair-queue.ts";
import { outsideConnections } from "../base/timers.ts";
import { callerGone } from "./deadline.ts";

/** What admission needs from the machine. */
interface AdmissionMachine {
  /** Monotonic clock in milliseconds. */
  readonly nowMs: () => number;
  /** Event loop utilization since the last call, 0 to 1. */
  readonly busyShare: () => number;
  /** Runs the callback after this turn of the event loop. */
  readonly nextTurn: (callback: () => void) => void;
  /** Runs the callback at an interval that does not keep the process alive; returns a function that stops it. */
  readonly every: (intervalMs: number, callback: () => void) => () => void;
}

export function admissionMachine(): AdmissionMachine {
  let since = performance.eventLoopUtilization();
  return {
    nowMs: () => performance.now(),
    busyShare: () => {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, since);
      since = now;
      return utilization;
    },
    nextTurn: (callback) => void outsideConnections(setImmediate, callback),
    every: (intervalMs, callback) => {
      const timer = outsideConnections(setInterval, callback, intervalMs).unref();
      return () => clearInterval(timer);
    },
  };
}

export interface AdmissionLimits {
  /** Lower bound of concurrent calls: enough to share commits, few enough to finish quickly. */
  readonly minAtOnce: number;
  /** Upper bound of concurrent calls, reached if the event loop is idle while calls wait elsewhere. */
  readonly maxAtOnce: number;
  /** Calls started in one turn of the event loop, so that new arrivals are seen in between. */
  readonly maxStartsPerTurn: number;
  /** Calls refused in one turn for having waited too long, so that refusals leave time for work. */
  readonly maxRefusalsPerTurn: number;
  /** After this many milliseconds a running call counts for its group only: it waits for something outside. */
  readonly stalledAfterMs: number;
  /** Most queued calls; each holds some KiB of headers. */
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

/** Groups of callers without a known tenant. A tenant id never begins with a space. */
export const unknownGroup = " unknown";
export const unauthenticatedGroup = " open";
export const operatorGroup = " operators";
export const probeGroup = " probes";

const sweepMs = 50;
/** Event loop utilization above `fullShare` lowers the concurrency limit; below `idleShare` it rises. */
const fullShare = 0.97;
const idleShare = 0.9;

/** Share of the limits for one group while others have work; one member has the same share of its group's. */
const sharedPart = 0.25;
/** How long other groups count as having work after their last call, in milliseconds. */
const sharedForMs = 1_000;

export interface AdmissionTicket {
  /** Calls `start` or `refuse` once, now or later; neither if the call leaves first. */
  enter(): void;
  readonly waitedMs: number;
  /** Moves the call to the group of its tenant. */
  belongsTo(group: string): void;
  /** Gives up the call's place while it waits for its caller: to send a body or more items, or to read the answer. */
  park(): void;
  /** Resolves when the call may continue. Rejects with `overloaded`, or with `canceled` after the call has left. */
  resume(): Promise<void>;
  /** Ends the call, in any state. Idempotent. */
  leave(): void;
}

/**
 * State of a call. `running` and `stalled` calls have a place, which counts for their group and member.
 *
 * ```
 * new ──enter──► waiting ──► running ──► stalled        a call that may begin at once does not wait
 *                  ▲            │           │
 *                resume         └──park─────┴──► parked
 *                  └──────────────────────────────┘
 * any state ──leave, refusal──► over
 * ```
 */
type State = "new" | "waiting" | "running" | "stalled" | "parked" | "over";

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #machine: AdmissionMachine;
  readonly #queue = new FairQueue<Entry>();
  /** Waiting calls, oldest first. */
  readonly #byAge = new Set<Entry>();
  /** Running calls without stalled ones, in the order of their starts. */
  readonly #running = new Set<Entry>();
  /** Calls with a place, by group, and by group and member. */
  readonly #started = new Map<string, number>();
  #atOnce: number;
  #startsThisTurn = 0;
  readonly #startsThisTurnOf = new Map<string, number>();
  #turnScheduled = false;
  #stopSweep: (() => void) | undefined;
  /** Group of the call that ended last, and until when more than one group counts as having work. */
  #lastGroup: string | undefined;
  #sharedUntilMs = 0;

  constructor(limits: AdmissionLimits, machine: AdmissionMachine) {
    this.#limits = limits;
    this.#machine = machine;
    this.#atOnce = limits.minAtOnce;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  /** Calls with a place, without those of the operator listener. */
  get places(): number {
    let places = 0;
    for (const [name, count] of this.#started)
      if (!name.includes(memberMark) && name !== operatorGroup && name !== probeGroup) places += count;
    return places;
  }

  ticket(account: Account, start: () => void, refuse: () => void): AdmissionTicket {
    return new Entry(this, account, start, refuse);
  }

  /** Starts, queues or refuses a call. This and the next two are for tickets only. */
  enter(entry: Entry): void {
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
   * Whether the group and the member may start one more call. A single group may use the whole limit; half as much
   * again is then reserved for groups that use almost nothing, so that they do not wait for it.
   */
  #may(group: string, member = ""): boolean {
    if (!this.#mayThisTurn(group)) return false;
    if (member !== "" && this.#startedOf(memberName(group, member)) >= partOf(this.#mostOfOne())) return false;
    const started = this.#startedOf(group);
    if (this.#running.size < this.#atOnce) return started < this.#mostOfOne();
    return this.#running.size < this.#atOnce * 1.5 && started < this.#atOnce / 8;
  }

  /**
   * Most concurrent calls of one group. If other groups have work this is a share of the lower bound: a limit that rose
   * because the store is slow would otherwise let one group lengthen the commits that all share.
   */
  #mostOfOne(): number {
    return this.#isShared ? partOf(this.#limits.minAtOnce) : this.#atOnce;
  }

  /** Whether the group may start one more call in this turn. Shared turns are short: few starts per group. */
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

  /** Gives up the call's place, or its position in the queue. */
  leave(entry: Entry, next: "parked" | "over"): void {
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

  regroup(entry: Entry, group: string): void {
    const { account, state } = entry;
    if (account.group === group) return;
    if (state === "waiting") this.#queue.delete(entry);
    entry.account = { group, member: "" };
    if (state === "waiting") this.#queue.add(entry);
    if (!hasPlace(state)) return;
    this.#count(account, -1);
    this.#count(entry.account, 1);
  }

  /** Refuses a call of the largest group; if that is the asking group, of one of its larger members. */
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

  /** Raises the limit if the event loop is idle and calls wait; lowers it if the event loop is full. */
  #adapt(busyShare: number): void {
    const { minAtOnce, maxAtOnce } = this.#limits;
    if (busyShare < idleShare) this.#atOnce = Math.min(maxAtOnce, Math.ceil(this.#atOnce * 1.25));
    else if (busyShare > fullShare) this.#atOnce = Math.max(minAtOnce, Math.floor(this.#atOnce * 0.8));
  }
}

function partOf(limit: number): number {
  return Math.max(1, Math.floor(limit * sharedPart));
}

/** Separates group and member; neither name contains it. */
const memberMark = "\n";

function memberName(group: string, member: string): string {
  return group + memberMark + member;
}

function hasPlace(state: State): boolean {
  return state === "running" || state === "stalled";
}

function nothing(): void {}

class Entry implements Waiter, AdmissionTicket {
  readonly #admission: Admission;
  account: Account;
  start: () => void;
  refuse: () => void;
  /** Called instead of `start` or `refuse` if the call leaves while it waits. */
  gone = nothing;
  state: State = "new";
  /** When the call entered its state. */
  sinceMs = 0;
  waitedMs = 0;

  constructor(admission: Admission, account: Account, start: () => void, refuse: () => void) {
    this.#admission = admission;
    this.account = account;
    this.start = start;
    this.refuse = refuse;
  }

  enter(): void {
    if (this.state === "new") this.#admission.enter(this);
  }

  belongsTo(group: string): void {
    this.#admission.regroup(this, group);
  }

  park(): void {
    if (hasPlace(this.state)) this.#admission.leave(this, "parked");
  }

  resume(): Promise<void> {
    if (hasPlace(this.state)) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const gone = () => reject(callerGone);
      if (this.state !== "parked") return gone();
      this.start = resolve;
      this.refuse = () => reject(overloaded());
      this.gone = gone;
      this.#admission.enter(this);
    });
  }

  leave(): void {
    this.#admission.leave(this, "over");
  }

  /** Drops the callbacks: the tables behind sets keep entries for longer than their calls last. */
  rest(state: "parked" | "over"): void {
    this.state = state;
    this.start = nothing;
    this.refuse = nothing;
    this.gone = nothing;
  }
}
