/** Bounds of what waits to be stored, and of what one write carries. */
import type { QueueLimits } from "./queues.ts";

/** Bounds of the appender. */
export interface AppenderLimits extends QueueLimits {
  /** Writes under way at a time, save those that wait for logs which others write to; their tenants differ. */
  readonly maxWritesInFlight: number;
  /** Writes under way at a time that wait for one tenant's log. Besides there is one that waits for a moment for many. */
  readonly maxWritesApart: number;
  /** A write that takes longer does not count among them any more: others need not wait for it. Milliseconds. */
  readonly slowWriteMs: number;
  /** How long a record waits for its write, and that for the store: then its caller is answered. Milliseconds. */
  readonly maxWaitMs: number;
  /**
   * How long a write waits for company: as long as every turn of the event loop brings more records, at most so many
   * turns. Fewer, larger commits cost less in all; but where the writer has a core of its own, it would stand idle.
   */
  readonly gatherTurns: number;
  /** Of one record's JSON text in UTF-8, before the ledger adds its own members. */
  readonly maxRecordBytes: number;
}

/**
 * Defaults. A record of the largest request, every character escaped, is under 1 MiB; 256 records are where a larger
 * batch stops paying; 64 MiB is a second of a saturated store at ordinary sizes.
 */
export const defaultAppenderLimits: AppenderLimits = {
  maxQueuedPerTenant: 1024,
  maxQueuedBytes: 64 * 1024 * 1024,
  maxTenantsPerWrite: 256,
  maxRecordsPerWrite: 256,
  maxBytesPerWrite: 4 * 1024 * 1024,
  maxTogetherShared: Number.POSITIVE_INFINITY,
  maxWritesInFlight: 1,
  maxWritesApart: 1,
  slowWriteMs: Number.POSITIVE_INFINITY,
  maxWaitMs: Number.POSITIVE_INFINITY,
  gatherTurns: 0,
  maxRecordBytes: 1024 * 1024,
};
