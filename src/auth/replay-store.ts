import type { TenantId } from "../base/ids.ts";

/** One DPoP proof, and the tenant of its token. Not secret. */
export interface ProofUse {
  readonly tenantId: TenantId;
  /** Base64url SHA-256 over the key and the id of the proof: 43 characters. */
  readonly proof: string;
}

/** Records used proofs for all replicas (RFC 9449 §11.1). Only authenticated callers can add to it. */
export interface ReplayStore {
  /**
   * Records the use, and resolves with whether it is the first: among any number of calls with the same use, concurrent
   * or not, across processes and restarts, exactly one gets true.
   * @param expiresAtMs milliseconds since the Unix epoch after which the use may be forgotten
   * @throws ServiceError `store_unavailable` if the store cannot answer; the call is then refused
   */
  firstUse(use: ProofUse, expiresAtMs: number): Promise<boolean>;
}
