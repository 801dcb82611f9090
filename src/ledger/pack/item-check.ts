/** Checks that each entry matches a selection by value. A pack cannot prove that one complete. */
import type { StoredRecord } from "../ports/record.ts";
import { hasTerms, searchTermsOf } from "../search/search-terms.ts";
import type { CheckedEntry } from "./entry-check.ts";
import { PackError, refuse } from "./format.ts";
import { isLinked, type PackField } from "./selection.ts";

/** Most records of a linked selection, which are kept in memory until the end. */
export const maxLinkedRecords = 100_000;

/** The decision that a record is or cites. */
export function decisionOf(record: StoredRecord): string | undefined {
  return searchTermsOf(record).find(({ field }) => field === "decision_id")?.value;
}

/** An entry that belongs to the selection only if this decision does. */
interface Linked {
  readonly line: number;
  readonly leafIndex: number;
  readonly decision: string | undefined;
}

export class ItemCheck {
  readonly #selection: { readonly field: PackField; readonly value: string };
  readonly #size: number;
  readonly #linked: Linked[] = [];
  /** Decisions that the selected records are or cite. */
  readonly #decisions = new Set<string>();

  constructor(selection: { readonly field: PackField; readonly value: string }, size: number) {
    this.#selection = selection;
    this.#size = size;
    if (selection.field === "decision_id") this.#decisions.add(selection.value);
  }

  /** Takes the next entry; `erases` if it erases a record that the pack declared erased. Throws a PackError. */
  next(entry: CheckedEntry, erases: boolean): void {
    const { line, leafIndex, leaf, record, erased } = entry;
    if (record === undefined && !erased) {
      if (leafIndex !== this.#size - 1) refuse(line, `leaf ${leafIndex} shows nothing`);
      return;
    }
    const decision = record === undefined ? leaf.record_id : decisionOf(record);
    if (record !== undefined && hasTerms(record, [this.#selection])) {
      if (decision !== undefined && isLinked(this.#selection)) this.#decisions.add(decision);
    } else if (!erases) {
      this.#linked.push({ line, leafIndex, decision });
    }
    if (Math.max(this.#linked.length, this.#decisions.size) > maxLinkedRecords)
      refuse(line, `more than ${maxLinkedRecords} records are linked`);
  }

  /** Throws a PackError if an entry does not belong to the selection. */
  end(): void {
    for (const { line, leafIndex, decision } of this.#linked)
      if (decision === undefined || !this.#decisions.has(decision))
        throw new PackError(`line ${line}: the record of leaf ${leafIndex} is not of the selection`);
  }
}
