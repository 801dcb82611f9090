/** Exchanges a client's credentials for a short-lived access token (specification, section 4.5). */
import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { SessionClient, SessionGrant } from "../base/caller.ts";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import type { FairSemaphore } from "../base/fair-queue.ts";
import type { TenantId } from "../base/ids.ts";
import { addressBlocks } from "../base/network.ts";
import type { AttemptLimit, PortionCounters } from "./ports.ts";

interface SessionToken {
  readonly accessToken: string;
  readonly expiresInSeconds: number;
  readonly subject: string;
}

/** Window of every limit, in milliseconds. */
const windowMs = 60_000;
/**
 * Failed attempts from one address, or from one /64, /56 and /48 of IPv6. A larger block has a higher limit, so that a
 * single address in it cannot use up its neighbours' attempts.
 */
const wrongAttemptsOfBlocks = [20, 40, 120] as const;
/** Attempts, failed or not, for one client from one address; a token lives for five minutes. */
const attemptsOfClientAtAddress = 30;
/** Counters that are remembered as reached, so that a flood does not reach the store. */
const maximumReached = 10_000;

export interface SessionRequest {
  readonly tenantId: TenantId;
  /** 1 to 256 characters. */
  readonly clientId: string;
  /** 1 to 1024 characters. */
  readonly clientSecret: string;
  /** Empty: all scopes that the client was granted. */
  readonly requestedScopes: readonly string[];
}

/** The caller as far as the network shows. */
interface SessionOrigin {
  /** Address, or /64 of IPv6, under which attempts are counted, besides the blocks around it. */
  readonly address: string;
  /** Base64url SHA-256 of the client certificate to bind the token to; undefined for none. */
  readonly certificateThumbprint: string | undefined;
}

export type Sessions = ReturnType<typeof createSessions>;

interface SessionDependencies {
  readonly clients: {
    /** Returns the client with this secret, or undefined. Time and memory do not depend on the result. */
    verify(tenantId: TenantId, clientId: string, secret: string): Promise<SessionClient | undefined>;
  };
  readonly counters: PortionCounters;
  readonly signer: { sign(grant: SessionGrant): Promise<SessionToken> };
  /** Bounds concurrent and waiting checks of secrets. */
  readonly slots: FairSemaphore;
  readonly clock: Clock;
}

export function createSessions({ clients, counters, signer, slots, clock }: SessionDependencies) {
  const reachedUntilMs = new LRUCache<string, number>({ max: maximumReached });

  /** Milliseconds until none of the limits is known to be reached; 0 if none is. */
  function knownWaitMs(limits: readonly AttemptLimit[]): number {
    const nowMs = clock.now();
    const waits = limits.map(({ counter }) => (reachedUntilMs.get(counter) ?? 0) - nowMs);
    // A wait longer than a window means that the clock went back.
    return Math.max(0, ...waits.filter((waitMs) => waitMs <= windowMs));
  }

  async function countAttempt(limits: readonly AttemptLimit[]): Promise<Attempts> {
    const knownMs = knownWaitMs(limits);
    if (knownMs > 0) throw tooManyAttempts(knownMs);
    const { counted, reached } = await takeAttempt(counters, limits);
    if (reached.length === 0) return counted;
    for (const { limit, endsAtMs } of reached) reachedUntilMs.set(limit.counter, endsAtMs);
    throw tooManyAttempts(Math.max(...reached.map(({ endsAtMs }) => endsAtMs)) - clock.now());
  }

  return {
    /**
     * Unknown client, wrong secret and wrong tenant get the same answer. Limits are per address, and per client and
     * address together: an attacker cannot lock out a client that calls from elsewhere. They are checked before the
     * secret.
     * @throws ServiceError `invalid_client`, `rate_limited`, `store_unavailable`; the signal's reason once aborted
     */
    async create(request: SessionRequest, { address, certificateThumbprint }: SessionOrigin, signal: AbortSignal) {
      const { tenantId, clientId, clientSecret } = request;
      const blocks = addressBlocks(address);
      const ofBlocks = blocks.map(limitOfBlock);
      const limits = [...ofBlocks, limitOfClient(tenantId, clientId, address)];
      // Also before the queue, so that callers over the limit do not delay others.
      const knownMs = knownWaitMs(limits);
      if (knownMs > 0) throw tooManyAttempts(knownMs);
      // Counted within the slot: waiting attempts do not count. The widest block queues as one party.
      const { client, counted } = await slots.run(
        blocks.at(-1) ?? address,
        async () => {
          const counted = await countAttempt(limits);
          return { counted, client: await clients.verify(tenantId, clientId, clientSecret) };
        },
        signal,
      );
      if (client === undefined) throw invalidClient();
      const ofAddress = counted.filter(({ limit }) => ofBlocks.includes(limit));
      await giveBackAttempt(counters, ofAddress);
      const scopes = narrow(client, request.requestedScopes);
      const { attributes } = client;
      const grant = { tenantId, clientId, scopes, certificateThumbprint };
      const token = await signer.sign({ ...grant, ...(attributes !== undefined && { attributes }) });
      /** The scopes are the granted part of the requested ones, in the order of the request; may be empty. */
      return { ...token, scopes, tenantId, clientId };
    },
  };
}

/** Each in the window that ends then. */
type Attempts = readonly { readonly limit: AttemptLimit; readonly endsAtMs: number }[];

/**
 * Counts one attempt under each of the limits, or under none if some are reached. For a moment too many may be counted,
 * never too few.
 */
export async function takeAttempt(counters: PortionCounters, limits: readonly AttemptLimit[]) {
  const taken = await Promise.all(limits.map(async (limit) => ({ limit, ...(await counters.takePortion(limit, 1)) })));
  const reached = taken.filter(({ granted }) => granted === 0);
  const counted = taken.filter(({ granted }) => granted > 0);
  if (reached.length > 0) await giveBackAttempt(counters, counted);
  return { counted, reached };
}

/** Takes attempts back whose windows have not ended. */
async function giveBackAttempt(counters: PortionCounters, attempts: Attempts): Promise<void> {
  await Promise.all(attempts.map(({ limit, endsAtMs }) => counters.giveBackPortion(limit, 1, endsAtMs)));
}

/** RFC 6749 §3.3: the client may get fewer scopes than it asked for; the answer says which. */
function narrow({ scopes }: SessionClient, requested: readonly string[]): readonly string[] {
  return requested.length === 0 ? scopes : [...new Set(requested)].filter((scope) => scopes.includes(scope));
}

function limitOfBlock(block: string, position: number): AttemptLimit {
  const maximum = wrongAttemptsOfBlocks[position] ?? wrongAttemptsOfBlocks[0];
  return { tenantId: undefined, counter: nameOf("session-address", block), maximum, windowMs };
}

function limitOfClient(tenantId: TenantId, clientId: string, address: string): AttemptLimit {
  const counter = nameOf("session-client", tenantId, clientId, address);
  return { tenantId, counter, maximum: attemptsOfClientAtAddress, windowMs };
}

/** A name of fixed length for any input. */
function nameOf(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
}

function tooManyAttempts(waitMs: number): ServiceError {
  return new ServiceError("rate_limited", "too many attempts to open a session", {
    retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
  });
}

/** RFC 6749 §5.2; HTTP requires a challenge on every 401 (RFC 9110 §15.5.2). */
function invalidClient(): ServiceError {
  return new ServiceError("invalid_client", "the client credentials are not valid", {
    challenge: 'Bearer realm="sdk"',
  });
}
