/** One quota of one tenant, as one thread counts it down. */
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

/** The largest portion, as a share of the limit; towards its end they are a part of what is left. */
const portionsOfLimit = 50;
const portionsOfRest = 8;
/** Time after which it is asked again whether others have given something back. */
const askAgainMs = 1_000;
/** What the store counts one for. */
const unitOf: Readonly<Record<QuotaName, number>> = { requests: 1, records: 1, artifact_bytes: 1024 };

export class QuotaAccount {
  readonly name: QuotaName;
  readonly #options: QuotaAccountOptions;
  readonly #limit: AttemptLimit;
  readonly #unit: number;
  /** What was granted and is not used; below zero where a call used more than it had announced. */
  #balance = 0;
  /** What the store had left for others when it was asked last; undefined in a period in which it was not. */
  #leftUnits: number | undefined;
  /** When the period ends, in milliseconds since the Unix epoch; 0 for none. */
  #endsAtMs = 0;
  /** Another number for each period. */
  #period = 0;
  #usedAtMs = 0;
  /** Until when it is taken that nothing is left. */
  #exhaustedUntilMs = 0;
  /** What calls wait for. */
  #awaited = 0;
  #leasing: Promise<void> | undefined;
  #isFailing = false;
  /** Whether calls that are still under way are all that uses it. */
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

  /** All that a period has. */
  get largest(): number {
    return this.#limit.maximum * this.#unit;
  }

  /** Whether the store could not be asked the last time. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** Forgets what was granted in a period that is over, or that a clock which went back puts too far ahead. */
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

  /** Whether the store had less than this the last time, and that was not long ago. */
  isExhausted(amount: number, nowMs: number): boolean {
    const restMs = this.#exhaustedUntilMs - nowMs;
    return this.#balance < amount && restMs > 0 && restMs <= askAgainMs;
  }

  /** Takes what `has` said was there; returns the period that it is of. */
  take(amount: number, nowMs: number): number {
    this.#balance -= amount;
    this.#usedAtMs = nowMs;
    return this.#period;
  }

  /** Of what was taken in this period so much was not used; below zero: so much more was. */
  settle(unused: number, period: number): void {
    if (period !== this.#period) return;
    this.#balance += unused;
    // A call that lasted: nobody else looks at this balance any more.
    if (this.#isGivenBack) void this.giveBack();
  }

  state(nowMs: number) {
    const remaining = Math.max(0, this.#balance + (this.#leftUnits ?? 0) * this.#unit);
    const resetSeconds = Math.max(0, Math.ceil((this.#endsAtMs - nowMs) / 1_000));
    return { name: this.name, quota: this.#options.quota, remaining, resetSeconds };
  }

  /**
   * Asks the store for a portion, for all calls that wait at the time. Whether there is enough now is to be looked at.
   * Rejects with `store_unavailable`.
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
    // All that waited for the portion before come back in this turn: they are asked for together.
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

  /**
   * What is not used is for others, and what was used beyond portions is counted. To be asked for no more. Resolves however
   * that ends: what is lost is lost until the period ends.
   */
  async giveBack(): Promise<void> {
    this.#isGivenBack = true;
    const nowMs = this.#options.clock.now();
    this.refresh(nowMs);
    const unused = Math.floor(this.#balance / this.#unit);
    this.#balance = 0;
    const { counters } = this.#options;
    const owed = Math.min(-unused, this.#limit.maximum);
    // Later than that the next period may have begun, by the clock of another: it has nothing of this.
    const isSure = this.#endsAtMs - nowMs > clockDifferenceMs;
    if (unused > 0 && isSure) await counters.giveBackPortion(this.#limit, unused).catch(() => {});
    else if (owed > 0) await counters.takePortion(this.#limit, owed).catch(() => {});
  }
}
