/**
 * Quotas of tenants per period, for all replicas. Every thread takes portions from shared counters and counts them down
 * alone: a call asks the store only if a portion is used up. So no more than the limit is ever granted. A portion is at
 * most a fiftieth of it; its unused rest is given back after some seconds, or lost until the period ends if the process
 * is killed.
 */
import { type Clock, clockDifferenceMs } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { type Quota, type QuotaName, type QuotaTable, quotaNames } from "../base/quotas.ts";
import type { Timers } from "../base/timers.ts";
import type { AttemptLimit, PortionCounters } from "./ports.ts";

/** Use of one call: bytes as far as they are known before reading, at least 1 if there are any. */
export type QuotaAmounts = Readonly<Record<QuotaName, number>>;

export type QuotaState = ReturnType<QuotaAccount["state"]>;

export interface QuotaHold {
  readonly states: readonly QuotaState[];
  /** `rate_limited`: nothing was taken. */
  readonly refusal?: ServiceError;
  /** Ends the call: it used this, by default everything; the rest of its grant is given back. Call once. */
  settle(used: Partial<QuotaAmounts>): void;
}

interface QuotaRequest {
  readonly tenantId: TenantId;
  readonly amounts: QuotaAmounts;
  /**
   * Amounts that the call has already taken, if this adds to them: refused if the sum is above a period's limit.
   * Otherwise a call above the limit uses the whole limit.
   */
  readonly beside?: QuotaAmounts;
  readonly signal: AbortSignal;
}

interface QuotasOptions {
  readonly table: () => QuotaTable;
  readonly counters: PortionCounters;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Called for refused calls, uncounted calls, and leases of portions. */
  readonly onEvent: (quota: QuotaName, event: "refused" | "uncounted" | "leased" | "lease_failed") => void;
}

/** Interval of the search for idle portions. */
const sweepMs = 2_000;
/** Time without use after which a portion is given back. */
const idleMs = 10_000;
/** Longest time for giving back when the service stops. */
const closeMs = 2_000;

export class Quotas {
  readonly #options: QuotasOptions;
  readonly #accounts = new Map<string, QuotaAccount>();
  #stopSweep = () => {};

  constructor(options: QuotasOptions) {
    this.#options = options;
    this.#sweepLater();
  }

  /**
   * Takes what a call will use of all of its tenant's quotas, or nothing. Returns at once if the portions suffice;
   * undefined if the tenant has no quotas.
   * @throws ServiceError `store_unavailable` if nothing can be counted and the call has records; the signal's
   *   reason
   */
  take(request: QuotaRequest): QuotaHold | undefined | Promise<QuotaHold> {
    const parts = this.#parts(request);
    if (parts.length === 0) return undefined;
    const nowMs = this.#options.clock.now();
    for (const { account } of parts) account.refresh(nowMs);
    const { beside } = request;
    const excessive = beside && parts.find(({ account, amount }) => beside[account.name] + amount > account.largest);
    if (excessive !== undefined) {
      const { name } = excessive.account;
      this.#options.onEvent(name, "refused");
      const message = `the call needs more than the tenant's quota of ${words[name]} for a whole period: send less at once`;
      return refused(parts, excessive.account, nowMs, message);
    }
    return parts.every(({ account, amount }) => account.has(amount))
      ? this.#hold(parts, nowMs)
      : this.#takeWaiting(parts, request);
  }

  /** Gives back what is left of all portions. */
  async close(): Promise<void> {
    this.#stopSweep();
    const accounts = [...this.#accounts.values()];
    this.#accounts.clear();
    const late = new Promise<void>((resolve) => this.#options.timers.after(closeMs, resolve));
    await Promise.race([Promise.all(accounts.map((account) => account.giveBack())), late]);
  }

  async #takeWaiting(parts: readonly Part[], { amounts, signal }: QuotaRequest): Promise<QuotaHold> {
    const { clock, onEvent } = this.#options;
    for (;;) {
      const nowMs = clock.now();
      for (const { account } of parts) account.refresh(nowMs);
      const short = parts.find(({ account, amount }) => !account.has(amount));
      if (short === undefined) return this.#hold(parts, nowMs);
      const { account, amount } = short;
      if (account.isExhausted(amount, nowMs)) {
        onEvent(account.name, "refused");
        return refused(parts, account, nowMs);
      }
      const pending = account.lease(amount);
      // A call without a record needs no store, and does not wait for one that has just failed.
      const needsStore = amounts.records > 0;
      if (!needsStore && (account.isFailing || (await pending.catch(() => "failed")) === "failed")) {
        pending.catch(() => {});
        onEvent(account.name, "uncounted");
        return { states: [], settle: () => {} };
      }
      await pending;
      signal.throwIfAborted();
    }
  }

  #hold(parts: readonly Part[], nowMs: number): QuotaHold {
    const held = parts.map((part) => ({ ...part, period: part.account.take(part.amount, nowMs) }));
    return {
      states: parts.map(({ account }) => account.state(nowMs)),
      settle: (used) => {
        for (const { account, amount, period } of held) {
          const { [account.name]: usedOfIt = amount } = used;
          if (usedOfIt !== amount) account.settle(amount - usedOfIt, period);
        }
      },
    };
  }

  #parts({ tenantId, amounts, beside }: QuotaRequest): readonly Part[] {
    const { defaults, tenants } = this.#options.table();
    const quotas = tenants.get(tenantId) ?? defaults;
    const parts: Part[] = [];
    for (const name of quotaNames) {
      const quota = quotas[name];
      if (quota === undefined || amounts[name] === 0) continue;
      const account = this.#account(tenantId, name, quota);
      parts.push({ account, amount: beside ? amounts[name] : Math.min(amounts[name], account.largest) });
    }
    return parts;
  }

  #account(tenantId: TenantId, name: QuotaName, quota: Quota): QuotaAccount {
    const key = `${name} ${tenantId}`;
    const known = this.#accounts.get(key);
    if (known?.isOf(quota)) return known;
    // The limit has changed: give back the rest of the old portion.
    void known?.giveBack();
    const account = new QuotaAccount({ ...this.#options, tenantId, name, quota });
    this.#accounts.set(key, account);
    return account;
  }

  #sweepLater(): void {
    this.#stopSweep = this.#options.timers.after(sweepMs, () => {
      this.#sweep();
      this.#sweepLater();
    });
  }

  #sweep(): void {
    const nowMs = this.#options.clock.now();
    for (const [key, account] of this.#accounts) {
      account.refresh(nowMs);
      if (!account.isIdle(nowMs)) continue;
      this.#accounts.delete(key);
      void account.giveBack();
    }
  }
}

interface Part {
  readonly account: QuotaAccount;
  readonly amount: number;
}

const words: Readonly<Record<QuotaName, string>> = {
  requests: "requests",
  records: "records",
  artifact_bytes: "bytes of artifacts",
};

function refused(
  parts: readonly Part[],
  account: QuotaAccount,
  nowMs: number,
  message = `the tenant's quota of ${words[account.name]} is used up`,
): QuotaHold {
  const retryAfterSeconds = Math.max(1, account.state(nowMs).resetSeconds);
  return {
    states: parts.map(({ account }) => account.state(nowMs)),
    refusal: new ServiceError("rate_limited", message, { retryAfterSeconds }),
    settle: () => {},
  };
}

// One quota of one tenant in one thread.

interface QuotaAccountOptions extends Pick<QuotasOptions, "counters" | "clock" | "onEvent"> {
  readonly tenantId: TenantId;
  readonly name: QuotaName;
  readonly quota: Quota;
}

/** The largest portion, as a fraction of the limit; near its end, as a fraction of what is left. */
const portionsOfLimit = 50;
const portionsOfRest = 8;
/** Time after which the store is asked again whether others have given something back. */
const askAgainMs = 1_000;
/** Amount that the store counts as one. */
const unitOf: Readonly<Record<QuotaName, number>> = { requests: 1, records: 1, artifact_bytes: 1024 };

class QuotaAccount {
  readonly name: QuotaName;
  /** Whether the last request to the store failed. */
  isFailing = false;
  readonly #options: QuotaAccountOptions;
  readonly #limit: AttemptLimit;
  readonly #unit: number;
  /** Granted and unused; negative if a call used more than it had announced. */
  #balance = 0;
  /** Units that the store had left for others at the last lease in this period; undefined without one. */
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

  /** The remaining amount, as far as this process knows. */
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
    this.#usedAtMs = clock.now();
    const wanted = this.#wantedUnits();
    const { granted, left, endsAtMs } = await counters.takePortion(this.#limit, wanted).catch((error: unknown) => {
      this.isFailing = true;
      onEvent(this.name, "lease_failed");
      throw error;
    });
    this.isFailing = false;
    onEvent(this.name, "leased");
    const answeredAtMs = clock.now();
    this.refresh(answeredAtMs);
    this.#balance += granted * this.#unit;
    this.#leftUnits = left;
    this.#endsAtMs = endsAtMs;
    if (granted < wanted) this.#exhaustedUntilMs = Math.min(this.#endsAtMs, answeredAtMs + askAgainMs);
  }

  #wantedUnits(): number {
    const { maximum } = this.#limit;
    const ofRest = Math.ceil((this.#leftUnits ?? maximum) / portionsOfRest);
    const portion = Math.min(Math.floor(maximum / portionsOfLimit), ofRest);
    const needed = Math.ceil((this.#awaited - this.#balance) / this.#unit);
    return Math.min(maximum, Math.max(1, portion, needed));
  }

  isIdle(nowMs: number): boolean {
    return this.#leasing === undefined && nowMs - this.#usedAtMs >= idleMs;
  }

  /** Gives back unused grants, and counts use beyond grants. No lease may follow. Always resolves. */
  async giveBack(): Promise<void> {
    this.#isGivenBack = true;
    const { counters, clock } = this.#options;
    this.refresh(clock.now());
    const unused = Math.floor(this.#balance / this.#unit);
    this.#balance = 0;
    const owed = Math.min(-unused, this.#limit.maximum);
    if (unused > 0) await counters.giveBackPortion(this.#limit, unused, this.#endsAtMs).catch(() => {});
    else if (owed > 0) await counters.takePortion(this.#limit, owed).catch(() => {});
  }
}
