/** Compares a log's unreadable records with its erasures, leaf by leaf. */
import type { StoredEntry } from "../ports/archive.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { Leaf } from "../record/leaf.ts";
import { readErasure, unerasable } from "../record/operator-records.ts";
import type { AuditProblem } from "./finding.ts";

/** Keeps only unreadable records without their erasure yet: an erasure comes after its record. */
export class ErasureAudit {
  readonly #lost = new Map<string, number>();
  #erased = 0;

  /** Records that the log declares erased. */
  get erased(): number {
    return this.#erased;
  }

  /** Takes the next leaf, with its record if that opens. Returns the problem. */
  next(
    { leafIndex, recordId }: StoredEntry,
    { kind }: Leaf,
    record: StoredRecord | undefined,
  ): AuditProblem | undefined {
    if (record === undefined) {
      if (unerasable[kind] !== undefined)
        return { leafIndex, message: `leaf ${leafIndex} of kind ${kind} cannot be opened, and is never erased` };
      this.#lost.set(recordId, leafIndex);
      return undefined;
    }
    return kind === "erasure" ? this.#account(record, leafIndex) : undefined;
  }

  /** Returns the problem after the last leaf. */
  end(): AuditProblem | undefined {
    const [first] = this.#lost.values();
    if (first === undefined) return undefined;
    const count = this.#lost.size === 1 ? "1 record" : `${this.#lost.size} records`;
    return {
      leafIndex: first,
      message: `${count} cannot be opened, and no leaf erased them: the first is leaf ${first}`,
    };
  }

  #account(record: StoredRecord, erasureIndex: number): AuditProblem | undefined {
    const said = readErasure(record);
    if (said === undefined)
      return { leafIndex: erasureIndex, message: `leaf ${erasureIndex} does not say what it erases` };
    const { recordId, leafIndex } = said;
    const lost = this.#lost.get(recordId);
    if (lost === undefined)
      return { leafIndex, message: `leaf ${leafIndex} was erased by leaf ${erasureIndex}, and can still be opened` };
    if (lost !== leafIndex)
      return { leafIndex: erasureIndex, message: `leaf ${erasureIndex} names the wrong leaf for what it erases` };
    this.#lost.delete(recordId);
    this.#erased += 1;
    return undefined;
  }
}
