import type { TenantId } from "../../base/ids.ts";

/** One DPoP proof, under the tenant whose token it came with. Not secret. */
export interface ProofUse {
  readonly tenantId: TenantId;
  /** Base64url SHA-256 over the key and the id of the proof: 43 characters. */
  readonly proof: string;
}

/**
 * Remembers which proofs were used, for all replicas together (RFC 9449 §11.1). A caller that was never let in does not
 * get here, so nobody else can fill it.
 */
export interface ReplayStore {
  /**
   * Notes the use, and resolves with whether it is the first: of any number of calls with the same use, at once or
   * one after another, in one process or several, before or after a restart, exactly one gets true.
   * @param expiresAtMs milliseconds since the Unix epoch from which on the use may be forgotten
   * @throws ServiceError `store_unavailable` where that cannot be known; the call is refused then
   */
  firstUse(use: ProofUse, expiresAtMs: number): Promise<boolean>;
}
