/** One quota of one tenant in one thread. */
import { type Clock, clockDifferenceMs } from "../base/clock.ts";
import type { TenantId } from "../base/ids.ts";
import type { Quota, QuotaName } from "../base/quotas.ts";
import type { AttemptLimit, PortionCounters } from "./ports.ts";

export interface QuotaAccountOptions {
  readonly tenantId: TenantId;
  readonly name: QuotaName;
  readonly quota: Quota;
  readonly counters: PortionCounters;
  readonly clock: Clock;
  readonly onEvent: (quota: QuotaName, event: "leased" | "lease_failed") => void;
}

/** The largest portion, as a fraction of the limit; near its end, as a fraction of what is left. */
const portionsOfLimit = 50;
const portionsOfRest = 8;
/** Time after which the store is asked again whether others have given something back. */
const askAgainMs = 1_000;
/** Amount that the store counts as one. */
const unitOf: Readonly<Record<QuotaName, number>> = { requests: 1, records: 1, artifact_bytes: 1024 };

export class QuotaAccount {
  readonly name: QuotaName;
  readonly #options: QuotaAccountOptions;
  readonly #limit: AttemptLimit;
  readonly #unit: number;
  /** Granted and unused; negative if a call used more than it had announced. */
  #balance = 0;
  /** What the store had left for others at the last lease in this period; undefined without one. */
  #leftUnits: number | undefined;
  /** End of the period, in milliseconds since the Unix epoch; 0 for none. */
  #endsAtMs = 0;
  /** Differs between periods. */
  #period = 0;
  #usedAtMs = 0;
  /** Until when the quota is assumed to be used up. */
  #exhaustedUntilMs = 0;
  /** Total that calls wait for. */
  #awaited = 0;
  #leasing: Promise<void> | undefined;
  #isFailing = false;
  /** Whether the account was given back; only calls in progress still use it. */
  #isGivenBack = false;

  constructor(options: QuotaAccountOptions) {
    const { tenantId, name, quota } = options;
    this.name = name;
    this.#options = options;
    this.#unit = unitOf[name];
    this.#limit = {
      tenantId,
      counter: `quota:${name}`,
      maximum: Math.max(1, Math.floor(quota.limit / this.#unit)),
      windowMs: quota.periodSeconds * 1_000,
    };
  }

  isOf({ limit, periodSeconds }: Quota): boolean {
    const { quota } = this.#options;
    return quota.limit === limit && quota.periodSeconds === periodSeconds;
  }

  /** Total of one period. */
  get largest(): number {
    return this.#limit.maximum * this.#unit;
  }

  /** Whether the last request to the store failed. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** Discards the grants of a period that ended, or whose end is implausible because the clock went back. */
  refresh(nowMs: number): void {
    const restMs = this.#endsAtMs - nowMs;
    if (this.#endsAtMs === 0 || (restMs > 0 && restMs <= this.#limit.windowMs + clockDifferenceMs)) return;
    this.#balance = 0;
    this.#leftUnits = undefined;
    this.#endsAtMs = 0;
    this.#exhaustedUntilMs = 0;
    this.#period += 1;
  }

  has(amount: number): boolean {
    return this.#balance >= amount;
  }

  /** Whether the store recently had less than this. */
  isExhausted(amount: number, nowMs: number): boolean {
    const restMs = this.#exhaustedUntilMs - nowMs;
    return this.#balance < amount && restMs > 0 && restMs <= askAgainMs;
  }

  /** Takes an amount that `has` confirmed; returns its period. */
  take(amount: number, nowMs: number): number {
    this.#balance -= amount;
    this.#usedAtMs = nowMs;
    return this.#period;
  }

  /** Returns the unused part of what was taken in this period; a negative amount means that more was used. */
  settle(unused: number, period: number): void {
    if (period !== this.#period) return;
    this.#balance += unused;
    // A long call ended after the account was given back.
    if (this.#isGivenBack) void this.giveBack();
  }

  state(nowMs: number) {
    const remaining = Math.max(0, this.#balance + (this.#leftUnits ?? 0) * this.#unit);
    const resetSeconds = Math.max(0, Math.ceil((this.#endsAtMs - nowMs) / 1_000));
    return { name: this.name, quota: this.#options.quota, remaining, resetSeconds };
  }

  /**
   * Asks the store for a portion for all calls that wait. Callers must check again whether it is enough. Rejects with
   * `store_unavailable`.
   */
  lease(amount: number): Promise<void> {
    this.#awaited += amount;
    this.#leasing ??= this.#ask().finally(() => {
      this.#leasing = undefined;
    });
    return this.#leasing.finally(() => {
      this.#awaited -= amount;
    });
  }

  async #ask(): Promise<void> {
    const { counters, clock, onEvent } = this.#options;
    // Calls that waited for the previous portion ask again in this turn: combine their requests.
    await null;
    const nowMs = clock.now();
    this.#usedAtMs = nowMs;
    const wanted = this.#wantedUnits();
    const { granted, left, waitMs } = await counters.takePortion(this.#limit, wanted).catch((error: unknown) => {
      this.#isFailing = true;
      onEvent(this.name, "lease_failed");
      throw error;
    });
    this.#isFailing = false;
    onEvent(this.name, "leased");
    const answeredAtMs = clock.now();
    this.refresh(answeredAtMs);
    this.#balance += granted * this.#unit;
    this.#leftUnits = left;
    this.#endsAtMs = nowMs + waitMs;
    if (granted < wanted) this.#exhaustedUntilMs = Math.min(this.#endsAtMs, answeredAtMs + askAgainMs);
  }

  #wantedUnits(): number {
    const { maximum } = this.#limit;
    const ofRest = Math.ceil((this.#leftUnits ?? maximum) / portionsOfRest);
    const portion = Math.min(Math.floor(maximum / portionsOfLimit), ofRest);
    const needed = Math.ceil((this.#awaited - this.#balance) / this.#unit);
    return Math.min(maximum, Math.max(1, portion, needed));
  }

  isIdle(nowMs: number, idleMs: number): boolean {
    return this.#leasing === undefined && nowMs - this.#usedAtMs >= idleMs;
  }

  /** Gives back unused grants, and counts use beyond grants. No lease may follow. Always resolves. */
  async giveBack(): Promise<void> {
    this.#isGivenBack = true;
    const nowMs = this.#options.clock.now();
    this.refresh(nowMs);
    const unused = Math.floor(this.#balance / this.#unit);
    this.#balance = 0;
    const { counters } = this.#options;
    const owed = Math.min(-unused, this.#limit.maximum);
    // Later, another replica's clock may have begun the next period, to which this does not belong.
    const isSure = this.#endsAtMs - nowMs > clockDifferenceMs;
    if (unused > 0 && isSure) await counters.giveBackPortion(this.#limit, unused).catch(() => {});
    else if (owed > 0) await counters.takePortion(this.#limit, owed).catch(() => {});
  }
}
