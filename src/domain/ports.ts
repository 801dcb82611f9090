/** What the domain asks of the machine, besides the ledger. */
import type { TenantId } from "../base/ids.ts";
import type { HashName } from "../ledger/artifacts/digest.ts";

/** What was learned from an artifact's bytes, before they were dropped. */
export interface ArtifactDigests {
  readonly sizeBytes: number;
  /** Lowercase hexadecimal, for every hash that was asked for. */
  readonly digests: ReadonlyMap<HashName, string>;
}

export interface ArtifactHasher {
  /**
   * Decodes standard base64 (RFC 4648 §4: padded, no line breaks, canonical) and hashes the bytes away from the event
   * loop. Keeps neither text nor bytes. Work is bounded in memory, over all and for each tenant.
   * @param objectBase64 at most 8 MiB when decoded
   * @throws ServiceError `invalid_request` naming `artifact_object_b64` where the text is not such base64 or too long,
   *   `overloaded` where too much waits already, `internal` where the work crashed; the signal's reason once aborted
   */
  digest(
    tenantId: TenantId,
    objectBase64: string,
    hashes: readonly HashName[],
    signal: AbortSignal,
  ): Promise<ArtifactDigests>;
}

/** So many attempts in a window of time, which begins with the first of them. */
export interface AttemptLimit {
  /** Undefined where the counter belongs to no tenant. */
  readonly tenantId: TenantId | undefined;
  /** Names what is counted: 1 to 64 characters, nothing secret. */
  readonly counter: string;
  readonly maximum: number;
  readonly windowMs: number;
}

/** A limit under which no attempt is let through now. */
export interface ReachedLimit {
  readonly counter: string;
  /** Milliseconds until its window ends. */
  readonly waitMs: number;
}

/** Counts attempts, for all replicas together. */
export interface AttemptCounters {
  /**
   * Counts one attempt under each of the limits, or under none where some are reached; atomic.
   * @returns the limits that are reached; empty where the attempt is counted
   * @throws ServiceError `store_unavailable`
   */
  takeAttempt(limits: readonly AttemptLimit[]): Promise<readonly ReachedLimit[]>;
  /**
   * Takes back one attempt under each of the limits, as far as their windows have not ended.
   * @throws ServiceError `store_unavailable`
   */
  giveBackAttempt(limits: readonly AttemptLimit[]): Promise<void>;
}

/** Of what a limit leaves, the part that one asker was given for itself. */
export interface Portion {
  /** As many as were wanted, or as there were left. */
  readonly granted: number;
  /** What others may still be given in this window. */
  readonly left: number;
  /** Milliseconds until the window ends, with which what is granted ends too. */
  readonly waitMs: number;
}

/**
 * Gives out what a limit allows in portions, for all replicas together: whoever has one counts it down alone. What was
 * given to somebody who is no more is lost until the window ends; more than the maximum is never given.
 */
export interface PortionCounters {
  /**
   * Grants up to so many, of a window that begins with the first of them.
   * @param wanted whole, from 1 to the maximum; the maximum is 1,000,000,000 at most
   * @throws ServiceError `store_unavailable`
   */
  takePortion(limit: AttemptLimit, wanted: number): Promise<Portion>;
  /**
   * Takes back so many that were granted and not used, unless their window has ended.
   * @throws ServiceError `store_unavailable`
   */
  giveBackPortion(limit: AttemptLimit, unused: number): Promise<void>;
}
