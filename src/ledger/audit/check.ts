/** Checks of rows beside a log, which collect problems. */
import type { StoredEntry } from "../ports/archive.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { Leaf } from "../record/leaf.ts";
import type { RecordCheck } from "./audit.ts";
import type { AuditProblem } from "./finding.ts";

export interface CompanionCheck extends RecordCheck {
  readonly problems: readonly AuditProblem[];
}

/** Most problems of one kind that are reported. */
const maxProblems = 16;
export abstract class Check implements CompanionCheck {
  readonly problems: AuditProblem[] = [];

  protected report(message: string, leafIndex?: number): void {
    if (this.problems.length < maxProblems)
      this.problems.push({ message, ...(leafIndex !== undefined && { leafIndex }) });
  }

  abstract next(entry: StoredEntry, leaf: Leaf, record: StoredRecord | undefined): Promise<void>;
  abstract end(): Promise<void>;
}
