/** Bounds of what waits to be stored, and of what one write carries. */

export interface AppenderLimits {
  readonly maxQueuedPerTenant: number;
  /** Bound over all tenants, so that many tenants together cannot exhaust the memory. */
  readonly maxQueuedBytes: number;
  readonly maxRecordsPerWrite: number;
  /** A write takes at least one record, or one whole group, whatever its size. */
  readonly maxBytesPerWrite: number;
  /** Writes under way at a time, without batches that the store writes later. Their tenants differ. */
  readonly maxWritesInFlight: number;
  /** A write that takes longer is not counted any more, so that others need not wait for it. Milliseconds. */
  readonly slowWriteMs: number;
  /** Bound of a record's wait for its write, and of the write's wait for the store. Milliseconds. */
  readonly maxWaitMs: number;
  /**
   * Bound of the turns that a write waits while every turn of the event loop brings more records. Fewer, larger commits
   * cost less in total, but a writer with its own core would be idle.
   */
  readonly gatherTurns: number;
  /**
   * Tenants whose receipts are signed in one turn of the event loop. Between two turns the next write begins with what
   * callers sent meanwhile, so a writer with its own core is busy while the others are signed.
   */
  readonly tenantsAnsweredAtOnce: number;
}

/**
 * Defaults. Batches of more than 256 records gain nothing. 64 MiB is one second of a saturated store at ordinary sizes.
 */
export const defaultAppenderLimits: AppenderLimits = {
  maxQueuedPerTenant: 1024,
  maxQueuedBytes: 64 * 1024 * 1024,
  maxRecordsPerWrite: 256,
  maxBytesPerWrite: 4 * 1024 * 1024,
  maxWritesInFlight: 1,
  slowWriteMs: Number.POSITIVE_INFINITY,
  maxWaitMs: Number.POSITIVE_INFINITY,
  gatherTurns: 0,
  tenantsAnsweredAtOnce: Number.POSITIVE_INFINITY,
};
