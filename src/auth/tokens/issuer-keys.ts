/** The keys of the token issuer: found by discovery, kept fresh in the background, never fetched per call. */
import { createLocalJWKSet } from "jose";
import { LRUCache } from "lru-cache";
import type { Clock } from "../../base/clock.ts";
import { issuerUnavailable, refusedToken } from "../challenge.ts";
import { candidateKeys, type FindKeys, type KeySet } from "./candidate-keys.ts";
import { discoverKeySetUrl, type FetchContext, fetchKeySet, parseIssuer } from "./issuer-documents.ts";
import { createRefetchBudget, untilAborted } from "./refetch-budget.ts";

/** A withdrawn key stops verifying, and a new `jwks_uri` is followed, within this time. */
const refreshIntervalMs = 5 * 60_000;
/**
 * How long keys outlive the last successful fetch. An issuer that is down mints no tokens either, so this covers an
 * outage or a partition; beyond it a key might have been withdrawn without our knowing for too long.
 */
const maximumKeyAgeMs = 60 * 60_000;
/** First pause after a failed fetch; each further one doubles it, up to the limits below. */
const firstRetryMs = 250;
/** Longest pause while there are usable keys. */
const retryLimitMs = 30_000;
/** Longest pause while there are none: readiness must follow the issuer's return within two seconds. */
const retryLimitWithoutKeysMs = 1_500;
const refetchBudgetSize = 2;
const refetchBudgetRefillMs = 30_000;
/** Told to callers that are refused while there are no keys. */
const retryAfterSeconds = 1;
/** Ids of published keys that are remembered, those that were used last. */
const maximumKnownIds = 256;
/** Calls that wait for a fetch at the same time, at most. None of them was let in yet. */
const maximumWaiting = 1_000;

export interface IssuerStatus {
  /** The verifier holds keys of the issuer that are not too old. */
  readonly issuerReady: boolean;
  /** For operators; names no secret. */
  readonly detail: string;
  /** For operators: what is not as it should be, although tokens can be verified. */
  readonly remark?: string;
}

export interface IssuerKeys {
  /** Begins discovery in the background; the first fetch is under way when this returns. Call once. */
  start(): void;
  /**
   * Finds the keys that a token may be signed with. Waits for a fetch that is under way. A `kid` that is not in the
   * set, or an algorithm that no key is for, makes one fetch at once, shared by all who wait, out of a budget of two
   * in 30 seconds: whoever can reach the service can invent such a token, and one that the issuer signed a moment ago
   * with a new key looks no different. So where nothing is left of the budget the answer is not that the token is bad.
   * @throws ServiceError `issuer_unavailable` while there are no keys, when the signal aborts the wait, when too many
   *   wait, and for an unknown `kid` while the issuer does not answer or the budget is used up; `invalid_token` for a
   *   `kid` that the issuer did not publish when it was asked after the call came in, or when the budget was used up
   *   and it had published it before, or has for other algorithms only
   */
  readonly find: FindKeys;
  /** Truthful at the moment of the call. */
  status(): IssuerStatus;
  /** Another number for every key set with other keys; undefined while there are no usable ones. */
  revision(): number | undefined;
  /** Stops fetching; idempotent. */
  close(): void;
}

export interface IssuerKeysDependencies extends Omit<FetchContext, "signal"> {
  readonly clock: Clock;
  /** Uniform in [0, 1): spreads the fetches of replicas. */
  readonly random: () => number;
  /** Told after every fetch how it went. */
  readonly onFetched?: (status: IssuerStatus) => void;
}

interface HeldKeys {
  readonly keys: KeySet;
  /** Of keys that are left out too: no fetch finds another one under them. */
  readonly ids: ReadonlySet<unknown>;
  /** The set as JSON, to tell whether another one came. */
  readonly published: string;
  readonly remark: string | undefined;
  readonly count: number;
  readonly fetchedAtMs: number;
}

/** @throws Error where the issuer identifier is none, or is http off loopback */
export function createIssuerKeys(issuer: string, dependencies: IssuerKeysDependencies): IssuerKeys {
  parseIssuer(issuer);
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
    const { keys, leftOutIds, remark } = await fetchKeySet(await discoverKeySetUrl(issuer, context), context);
    if (keys.length === 0) {
      // All keys withdrawn is the issuer's word, not an outage: the old ones must not outlive it.
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
      fetchedAtMs: clock.now(),
    };
  }

  /** Joins the fetch that is under way or begins one. Never rejects. */
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

  /** @throws ServiceError where the budget is used up: the key is withdrawn as far as is known, or it may be new */
  function beginFetch(kid: string | undefined): void {
    if (!budget.take()) {
      if (kid !== undefined && everPublished.has(kid)) throw unknownKey();
      throw issuerUnavailable(Math.ceil(budget.refillInMs() / 1000), "an unknown key id, and no fetch left for it");
    }
    void refresh();
  }

  /** Waits until the fetch that is under way, if any, has ended either way; no longer than the call's deadline. */
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
    // Keys too old without a failure: the machine slept through its refresh.
    if (held !== undefined && !usable() && failure === undefined) void refresh();
    if (!usable()) await settle(signal);
    if (held === undefined || !usable()) throw issuerUnavailable(retryAfterSeconds, failure ?? "not started");
    return held;
  }

  function status(): IssuerStatus {
    const ready = usable();
    if (failure !== undefined) return { issuerReady: ready, detail: failure };
    if (held === undefined) return { issuerReady: false, detail: "the issuer's keys are not fetched yet" };
    const { count, remark } = held;
    const detail = ready ? `${count} keys` : "the issuer's keys are too old";
    return { issuerReady: ready, detail: remark ?? detail, ...(remark !== undefined && { remark }) };
  }

  return {
    status,
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
      // A fetch that began before the call came in may have read the set before the key was in it.
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
  return issuerUnavailable(retryAfterSeconds, "the caller's deadline came first");
}

function unknownKey(): Error {
  return refusedToken("invalid_token", "the access token is signed by an unknown key");
}
