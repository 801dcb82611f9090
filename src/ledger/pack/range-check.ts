/** Checks whether a pack has everything of a time range. */
import type { CheckedEntry } from "./entry-check.ts";
import { refuse } from "./format.ts";
import type { TimeRange } from "./selection.ts";

/** The leaves of a complete range. */
export interface CompleteRange {
  /** Index of its first leaf; undefined if it has none. */
  readonly firstLeafIndex: number | undefined;
  readonly leaves: number;
  /** Whether a leaf after the range is shown. If not, the log may still get records of that time. */
  readonly closed: boolean;
}

/**
 * Checks that the leaves of the range have no gap, each with its record or erased; that the leaf to their left, unless
 * they begin the log, is older than the range; and that the one to their right, unless they end it, is younger. Times
 * never go back within a log, so no other leaf is in the range. Everything after the right neighbour must be the last
 * leaf or an erasure of a shown record.
 */
export class RangeCheck {
  readonly #range: TimeRange;
  readonly #size: number;
  /** Index of the newest entry up to the right neighbour. */
  #newest: number | undefined;
  #first: number | undefined;
  #leaves = 0;
  #closed = false;

  constructor(range: TimeRange, size: number) {
    this.#range = range;
    this.#size = size;
  }

  /** Takes the next entry; `erases` if it erases a record that the pack declared erased. Throws a PackError. */
  next(entry: CheckedEntry, erases: boolean): void {
    const { line, leafIndex, leaf, record, erased } = entry;
    const { from, to } = this.#range;
    const isBefore = from !== undefined && leaf.recorded_at < from;
    const isAfter = to !== undefined && leaf.recorded_at >= to;
    if (isBefore && this.#newest !== undefined) refuse(line, `leaf ${leafIndex} is one too many before the range`);
    if (!isBefore && !this.#closed && leafIndex !== (this.#newest ?? -1) + 1)
      refuse(line, `leaf ${(this.#newest ?? -1) + 1} is left out`);
    this.#newest = leafIndex;
    if (isBefore || isAfter) {
      if (erased || (record !== undefined && !erases))
        refuse(line, `the record of leaf ${leafIndex} is not of the range`);
      const isNeeded = !this.#closed || erases || leafIndex === this.#size - 1;
      if (!isNeeded) refuse(line, `leaf ${leafIndex} is not of the range`);
      this.#closed ||= isAfter;
      return;
    }
    if (record === undefined && !erased) refuse(line, `leaf ${leafIndex} is of the range, and its record is left out`);
    this.#first ??= leafIndex;
    this.#leaves += 1;
  }

  /** Returns the result after the log's last leaf. */
  end(): CompleteRange {
    return { firstLeafIndex: this.#first, leaves: this.#leaves, closed: this.#closed };
  }
}
