/** What a pack says is erased, beside the erasures that it shows: without one, a record would merely be left out. */
import { readErasure } from "../record/erasure.ts";
import type { CheckedEntry } from "./entry-check.ts";
import { PackError, refuse } from "./problem.ts";

/** More erased records without their erasure are not kept track of at a time. */
const maxClaims = 100_000;

export class ErasureClaims {
  readonly #open = new Map<string, CheckedEntry>();

  /** Takes the next entry. Returns whether it erases a record that the pack said to be erased. Throws a PackError. */
  next(entry: CheckedEntry): boolean {
    const { line, leaf, leafIndex, record, erased } = entry;
    if (erased) this.#open.set(leaf.record_id, entry);
    if (this.#open.size > maxClaims) refuse(line, `more than ${maxClaims} erased records are without their erasure`);
    if (record?.kind !== "erasure") return false;
    const said = readErasure(record) ?? refuse(line, `leaf ${leafIndex} does not say what it erases`);
    const claim = this.#open.get(said.recordId);
    if (claim === undefined) return false;
    if (claim.leafIndex !== said.leafIndex) refuse(line, `leaf ${leafIndex} names the wrong leaf for what it erases`);
    return this.#open.delete(said.recordId);
  }

  /** Throws a PackError where something was said to be erased, and no erasure of it was shown. */
  end(): void {
    const [first] = this.#open.values();
    if (first === undefined) return;
    throw new PackError(
      `line ${first.line}: leaf ${first.leafIndex} is said to be erased, and no erasure of it is shown`,
    );
  }
}
