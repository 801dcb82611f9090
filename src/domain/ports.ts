/** The domain's interfaces to the machine, besides the ledger. */
import type { TenantId } from "../base/ids.ts";
import type { HashName } from "../ledger/artifacts/digest.ts";

/** Results of hashing an artifact's bytes, which are not kept. */
export interface ArtifactDigests {
  readonly sizeBytes: number;
  /** Lowercase hexadecimal, for every requested hash. */
  readonly digests: ReadonlyMap<HashName, string>;
}

export interface ArtifactHasher {
  /**
   * Decodes standard base64 (RFC 4648 §4: padded, no line breaks, canonical) and hashes the bytes. Keeps neither text
   * nor bytes. Memory is bounded, in total and for each tenant.
   * @param objectBase64 at most 8 MiB when decoded
   * @throws ServiceError `invalid_request` naming `artifact_object_b64` if the text is not such base64 or too long,
   *   `overloaded` if too much is waiting; the signal's reason once aborted
   */
  digest(
    tenantId: TenantId,
    objectBase64: string,
    hashes: readonly HashName[],
    signal: AbortSignal,
  ): Promise<ArtifactDigests>;
}

/** Most attempts in a window of time that begins with the first of them. */
export interface AttemptLimit {
  /** Undefined if the counter belongs to no tenant. */
  readonly tenantId: TenantId | undefined;
  /** Name of the counter: 1 to 64 characters, not secret. */
  readonly counter: string;
  readonly maximum: number;
  readonly windowMs: number;
}

/** A part of a limit that was granted to one process. */
export interface Portion {
  /** As many as were wanted, or as were left. */
  readonly granted: number;
  /** What can still be granted to others in this window. */
  readonly left: number;
  /** When the window ends, which ends the grant too. Milliseconds since the Unix epoch. */
  readonly endsAtMs: number;
}

/**
 * Grants portions of a limit for all replicas: each holder counts its portion down alone. The portion of a process that
 * died is lost until the window ends; more than the maximum is never granted.
 */
export interface PortionCounters {
  /**
   * Grants up to `wanted` of a window that begins with the first grant.
   * @param wanted whole, from 1 to the maximum, which is at most 1,000,000,000
   * @throws ServiceError `store_unavailable`
   */
  takePortion(limit: AttemptLimit, wanted: number): Promise<Portion>;
  /**
   * Takes back unused grants of the window that ends then; nothing if another one has begun.
   * @throws ServiceError `store_unavailable`
   */
  giveBackPortion(limit: AttemptLimit, unused: number, endsAtMs: number): Promise<void>;
}
