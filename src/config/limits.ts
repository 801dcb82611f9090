/** Limits that no setting changes. */

/** Limits that are the same in every deployment, in milliseconds. Tests use shorter ones. */
export interface FixedLimits {
  /** Polling interval of the policy directory. */
  readonly policyPollMs: number;
  /** For a request body to arrive. */
  readonly bodyTimeoutMs: number;
  /** For one call, whatever deadline it requests. */
  readonly maxDeadlineMs: number;
  /** For a caller to read an answer, and for a silent peer with an open stream to answer a PING. */
  readonly answerTimeoutMs: number;
  /** Idle time after which a stream of evidence or registrations ends. */
  readonly bulkIdleTimeoutMs: number;
  /**
   * Request bodies in memory at once, in bytes; one tenant has half of it. Default: an eighth of the memory, 32 to 64
   * MiB.
   */
  readonly bodyBudgetBytes?: number;
}

export const fixedLimits: FixedLimits = {
  policyPollMs: 1_000,
  bodyTimeoutMs: 10_000,
  maxDeadlineMs: 30_000,
  answerTimeoutMs: 30_000,
  bulkIdleTimeoutMs: 60_000,
};
