/**
 * What tenants may use in a period, for all replicas together. Every thread takes portions from the counters that all
 * share, and counts them down by itself: a call asks the store only where a portion is used up. So never more is granted
 * than the limit; a portion is a fiftieth of it at most, and what is not used of one is given back after some seconds, or
 * lost until the period ends where the process is killed.
 */
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { type Quota, type QuotaName, type QuotaTable, quotaNames } from "../base/quotas.ts";
import type { Timers } from "../base/timers.ts";
import type { PortionCounters } from "./ports.ts";
import { QuotaAccount } from "./quota-account.ts";

/** What one call uses: bytes as far as they are known before it is read, at least 1 where there are any. */
export type QuotaAmounts = Readonly<Record<QuotaName, number>>;

/** One quota as a call found it. */
export interface QuotaState {
  readonly name: QuotaName;
  readonly quota: Quota;
  /** What is left, as far as this process knows. */
  readonly remaining: number;
  /** Seconds until the period ends. */
  readonly resetSeconds: number;
}

/** What a call was granted, or why not. */
export interface QuotaHold {
  readonly states: readonly QuotaState[];
  /** `rate_limited`: nothing was taken. */
  readonly refusal?: ServiceError;
  /** The call is over, and has used this, or all where it does not say; what it was granted besides is for others. Once. */
  settle(used: Partial<QuotaAmounts>): void;
}

export interface QuotaRequest {
  readonly tenantId: TenantId;
  readonly amounts: QuotaAmounts;
  /** Whether the call can do without the store: it is let through, uncounted, while nothing can be counted. */
  readonly isStoreless: boolean;
  /** Whether more than a period's limit is refused. Otherwise a call that uses more, such as a large body, uses all of it. */
  readonly isWhole?: boolean;
  readonly signal: AbortSignal;
}

export interface QuotasOptions {
  readonly table: () => QuotaTable;
  readonly counters: PortionCounters;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Told of refused calls, of calls that could not be counted, and of portions that were asked for. */
  readonly onEvent: (quota: QuotaName, event: "refused" | "uncounted" | "leased" | "lease_failed") => void;
}

/** How often portions that nobody uses are looked for. */
const sweepMs = 2_000;
/** Time after which a portion is given back that nobody has used meanwhile. */
const idleMs = 10_000;
/** Longest time for that when the service stops. */
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
   * Takes what a call will use of all of its tenant's quotas, or nothing. Returns at once where portions last; undefined
   * where the tenant has no quotas.
   * @throws ServiceError `store_unavailable` where nothing can be counted and the call needs the store; the signal's reason
   */
  take(request: QuotaRequest): QuotaHold | undefined | Promise<QuotaHold> {
    const parts = this.#parts(request);
    if (parts.length === 0) return undefined;
    const nowMs = this.#options.clock.now();
    for (const { account } of parts) account.refresh(nowMs);
    const excessive = parts.find(({ account, amount }) => request.isWhole === true && amount > account.largest);
    if (excessive !== undefined) {
      this.#options.onEvent(excessive.account.name, "refused");
      return refused(parts, excessive.account, nowMs);
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

  async #takeWaiting(parts: readonly Part[], { isStoreless, signal }: QuotaRequest): Promise<QuotaHold> {
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
      // Whoever can do without the store does not wait for one that has just failed.
      const isPassed = isStoreless && (account.isFailing || (await pending.catch(() => "failed")) === "failed");
      if (isPassed) {
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

  #parts({ tenantId, amounts, isWhole }: QuotaRequest): readonly Part[] {
    const { defaults, tenants } = this.#options.table();
    const quotas = tenants.get(tenantId) ?? defaults;
    const parts: Part[] = [];
    for (const name of quotaNames) {
      const quota = quotas[name];
      if (quota === undefined || amounts[name] === 0) continue;
      const account = this.#account(tenantId, name, quota);
      parts.push({ account, amount: isWhole === true ? amounts[name] : Math.min(amounts[name], account.largest) });
    }
    return parts;
  }

  #account(tenantId: TenantId, name: QuotaName, quota: Quota): QuotaAccount {
    const key = `${name} ${tenantId}`;
    const known = this.#accounts.get(key);
    if (known?.isOf(quota)) return known;
    // What is left of a portion of another limit is given back: what comes next is of the one in force.
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
      if (!account.isIdle(nowMs, idleMs)) continue;
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

function refused(parts: readonly Part[], account: QuotaAccount, nowMs: number): QuotaHold {
  const retryAfterSeconds = Math.max(1, account.state(nowMs).resetSeconds);
  const message = `the tenant's quota of ${words[account.name]} is used up`;
  return {
    states: parts.map(({ account }) => account.state(nowMs)),
    refusal: new ServiceError("rate_limited", message, { retryAfterSeconds }),
    settle: () => {},
  };
}
