/** Keys of a token issuer: found by discovery, refreshed in the background, never fetched per call. */
import { createLocalJWKSet } from "jose";
import { LRUCache } from "lru-cache";
import type { Clock } from "../base/clock.ts";
import { untilAborted } from "../base/timers.ts";
import { candidateKeys, type FindKeys, type KeySet, unknownKey } from "./candidate-keys.ts";
import { issuerUnavailable } from "./challenge.ts";
import { discover, type FetchContext, fetchKeySet } from "./issuer-documents.ts";

/** Within this time a withdrawn key stops verifying, and a new `jwks_uri` is used. */
const refreshIntervalMs = 5 * 60_000;
/**
 * How long keys are used after the last successful fetch. An issuer that is down issues no tokens either, so this
 * bridges an outage or a partition; after it, a withdrawn key might be used for too long.
 */
const maximumKeyAgeMs = 60 * 60_000;
/** First pause after a failed fetch; doubles after each, up to the limits below. */
const firstRetryMs = 250;
/** Longest pause while keys are usable. */
const retryLimitMs = 30_000;
/** Longest pause without keys: readiness must follow the issuer's return within two seconds. */
const retryLimitWithoutKeysMs = 1_500;
const refetchBudgetSize = 2;
const refetchBudgetRefillMs = 30_000;
/** `Retry-After` of calls refused for want of keys. */
const retryAfterSeconds = 1;
/** Most ids of published keys that are remembered; the least recently used are evicted. */
const maximumKnownIds = 256;
/** Most calls that wait for a fetch. They are not authenticated yet. */
const maximumWaiting = 1_000;

export interface IssuerStatus {
  /** Whether the verifier has keys of the issuer that are fresh enough. */
  readonly issuerReady: boolean;
  /** For operators; holds no secret. */
  readonly detail: string;
  /** For operators: a problem that does not prevent verifying tokens. */
  readonly remark?: string;
}

export interface IssuerKeys {
  /** Starts discovery in the background; the first fetch has begun when this returns. Call once. */
  start(): void;
  /**
   * Finds the keys that a token may be signed with. Waits for a fetch in progress. An unknown `kid`, or an algorithm
   * without a key, triggers one fetch, shared by all who wait, from a budget of two in 30 seconds: anyone can invent
   * such a token, and a token with a brand-new key looks the same. If the budget is used up, the answer is therefore
   * not that the token is bad.
   * @throws ServiceError `issuer_unavailable` without keys, when the signal aborts the wait, if too many wait, and for
   *   an unknown `kid` if the issuer does not answer or the budget is used up; `invalid_token` for a `kid` that the
   *   issuer did not publish when asked after the call arrived, or had withdrawn before the budget was used up, or
   *   publishes for other algorithms only
   */
  readonly find: FindKeys;
  status(): IssuerStatus;
  /** Token endpoint of the newest discovery document; undefined before the first. */
  tokenEndpoint(): string | undefined;
  /** A number that changes with the keys; undefined while none are usable. */
  revision(): number | undefined;
  /** Stops fetching. Idempotent. */
  close(): void;
}

interface IssuerKeysDependencies extends Omit<FetchContext, "signal"> {
  readonly clock: Clock;
  /** Uniform in [0, 1); spreads the fetches of replicas. */
  readonly random: () => number;
  readonly onFetched?: (status: IssuerStatus) => void;
}

interface HeldKeys {
  readonly keys: KeySet;
  /** Includes ids of keys that are left out: another fetch would not help them. */
  readonly ids: ReadonlySet<unknown>;
  /** The set as JSON, to detect changes. */
  readonly published: string;
  readonly remark: string | undefined;
  readonly count: number;
  readonly tokenEndpoint: string | undefined;
  readonly fetchedAtMs: number;
}

/** @param issuer an issuer identifier (OpenID Connect Discovery §3): https, or http on loopback */
export function createIssuerKeys(issuer: string, dependencies: IssuerKeysDependencies): IssuerKeys {
  const { clock, timers, random } = dependencies;
  const closing = new AbortController();
  const budget = createRefetchBudget(refetchBudgetSize, refetchBudgetRefillMs, clock);
  const everPublished = new LRUCache<string, true>({ max: maximumKnownIds });
  let held: HeldKeys | undefined;
  let revision = 0;
  let fetching: Promise<void> | undefined;
  let fetchesBegun = 0;
  let waiting = 0;
  let failure: string | undefined;
  let failuresInARow = 0;
  let cancelNext = () => {};

  const usable = () => held !== undefined && clock.now() - held.fetchedAtMs < maximumKeyAgeMs;

  async function load(): Promise<void> {
    const context = { ...dependencies, signal: closing.signal };
    const { keySetUrl, tokenEndpoint } = await discover(issuer, context);
    const { keys, leftOutIds, remark } = await fetchKeySet(keySetUrl, context);
    if (keys.length === 0) {
      // An empty key set is not an outage: the issuer has withdrawn its keys.
      held = undefined;
      throw new Error(["the issuer publishes no signature keys", ...(remark === undefined ? [] : [remark])].join("; "));
    }
    const published = JSON.stringify(keys);
    if (published !== held?.published) revision += 1;
    for (const { kid } of keys) if (kid !== undefined) everPublished.set(kid, true);
    held = {
      keys: createLocalJWKSet({ keys: [...keys] }),
      ids: new Set([...keys.map(({ kid }) => kid), ...leftOutIds]),
      published,
      remark,
      count: keys.length,
      tokenEndpoint,
      fetchedAtMs: clock.now(),
    };
  }

  /** Joins the fetch in progress or starts one. Never rejects. */
  function refresh(): Promise<void> {
    fetching ??= attempt().finally(() => {
      fetching = undefined;
    });
    return fetching;
  }

  async function attempt(): Promise<void> {
    fetchesBegun += 1;
    cancelNext();
    try {
      await load();
      failure = undefined;
      failuresInARow = 0;
    } catch (error) {
      failure = error instanceof Error ? error.message : "unknown error";
      failuresInARow += 1;
    }
    if (closing.signal.aborted) return;
    cancelNext = timers.after(nextDelayMs(), () => void refresh());
    dependencies.onFetched?.(status());
  }

  function nextDelayMs(): number {
    if (failure === undefined) return refreshIntervalMs * (0.9 + random() * 0.1);
    const limitMs = usable() ? retryLimitMs : retryLimitWithoutKeysMs;
    return Math.min(limitMs, firstRetryMs * 2 ** (failuresInARow - 1)) * (0.5 + random() * 0.5);
  }

  /** @throws ServiceError if the budget is used up: `invalid_token` for a withdrawn key, else `issuer_unavailable` */
  function beginFetch(kid: string | undefined): void {
    if (!budget.take()) {
      if (kid !== undefined && everPublished.has(kid)) throw unknownKey();
      throw issuerUnavailable(Math.ceil(budget.refillInMs() / 1000), "unknown key id, and the fetch budget is used up");
    }
    void refresh();
  }

  /** Waits for the fetch in progress, if any, until the call's deadline at most. */
  async function settle(signal: AbortSignal): Promise<void> {
    if (fetching === undefined) return;
    if (waiting >= maximumWaiting) throw issuerUnavailable(retryAfterSeconds, "too many calls wait for the keys");
    waiting += 1;
    try {
      await untilAborted(fetching, signal, late);
    } finally {
      waiting -= 1;
    }
  }

  async function current(signal: AbortSignal): Promise<HeldKeys> {
    // Keys too old without a failed fetch: the machine was suspended.
    if (held !== undefined && !usable() && failure === undefined) void refresh();
    if (!usable()) await settle(signal);
    if (held === undefined || !usable()) throw issuerUnavailable(retryAfterSeconds, failure ?? "not started");
    return held;
  }

  function status(): IssuerStatus {
    const ready = usable();
    if (failure !== undefined) return { issuerReady: ready, detail: failure };
    if (held === undefined) return { issuerReady: false, detail: "the issuer's keys have not been fetched yet" };
    const { count, remark } = held;
    const detail = ready ? `${count} keys` : "the issuer's keys are too old";
    return { issuerReady: ready, detail: remark ?? detail, ...(remark !== undefined && { remark }) };
  }

  return {
    status,
    tokenEndpoint: () => held?.tokenEndpoint,
    revision: () => (usable() ? revision : undefined),
    start() {
      void refresh();
    },
    async find(header, signal, mayFetch) {
      const begunBefore = fetchesBegun;
      const lookUp = async () => {
        const { keys, ids } = await current(signal);
        return header.kid === undefined || ids.has(header.kid) ? candidateKeys(keys, header) : [];
      };
      let keys = await lookUp();
      if (keys.length > 0) return keys;
      if (header.kid !== undefined && held?.ids.has(header.kid)) throw unknownKey();
      mayFetch();
      // A fetch that began before the call arrived may have read the set before the key was added.
      if (fetching !== undefined && fetchesBegun === begunBefore) {
        await settle(signal);
        keys = await lookUp();
      }
      if (keys.length === 0) {
        if (fetchesBegun === begunBefore) beginFetch(header.kid);
        await settle(signal);
        keys = await lookUp();
      }
      if (keys.length > 0) return keys;
      throw failure === undefined ? unknownKey() : issuerUnavailable(retryAfterSeconds, failure);
    },
    close() {
      closing.abort();
      cancelNext();
    },
  };
}

function late(): Error {
  return issuerUnavailable(retryAfterSeconds, "the caller's deadline passed first");
}

/**
 * A bucket of `size` permits that refills `refillMs` after the first was taken. However many tokens with invented key
 * ids arrive, the issuer sees at most `size` fetches per period.
 */
export function createRefetchBudget(size: number, refillMs: number, clock: Clock) {
  let left = size;
  let firstTakenAtMs = 0;
  return {
    /** Takes a permit; false if none is left. */
    take(): boolean {
      const now = clock.now();
      // If the clock goes back, the period ends: an extra fetch is better than none for hours.
      if (now - firstTakenAtMs >= refillMs || now < firstTakenAtMs) left = size;
      if (left === 0) return false;
      if (left === size) firstTakenAtMs = now;
      left -= 1;
      return true;
    },
    /** Milliseconds until the refill; at least 1. */
    refillInMs: () => Math.min(refillMs, Math.max(1, firstTakenAtMs + refillMs - clock.now())),
  };
}
