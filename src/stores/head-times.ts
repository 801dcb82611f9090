/** Logs whose newest record is of a time that is still to come. */
import type { LogState } from "../ledger/ports/store.ts";
import { IncompatibleStoreError } from "./errors.ts";

/** Clocks of machines differ by seconds; by more only where one of them is wrong. */
const toleranceMs = 5 * 60_000;

/**
 * Throws `IncompatibleStoreError` where the clock is more than five minutes behind a log: times never go back within a
 * log, so everything that is recorded would get the time of that record, for as long as the clock is behind.
 */
export function refuseFutureHeads(
  heads: Iterable<LogState & { readonly lastRecordedAtMs: number }>,
  nowMs: number,
): void {
  let newest: (LogState & { readonly lastRecordedAtMs: number }) | undefined;
  for (const head of heads) if (head.lastRecordedAtMs > (newest?.lastRecordedAtMs ?? 0)) newest = head;
  if (newest === undefined || newest.lastRecordedAtMs <= nowMs + toleranceMs) return;
  throw new IncompatibleStoreError(
    `log ${newest.origin} has a record of ${new Date(newest.lastRecordedAtMs).toISOString()}, and this machine's clock ` +
      `says ${new Date(nowMs).toISOString()}: set the clock right. Where the clock was wrong that wrote the record, nothing ` +
      "can be recorded truthfully before that time.",
  );
}
