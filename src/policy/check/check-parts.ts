/** How a thread hands a checked bundle over to another: set by set, so that neither is held up by all of it at once. */
import type { BundlePart } from "../load/bundle-parts.ts";
import type { ComparedBundle } from "./check.ts";
import { type PolicyColumns, PolicyTable } from "./policy-table.ts";

/** The policies of a set, in memory that both threads have; and in the end all else. */
export type CheckPart =
  | { readonly set: string; readonly policies: PolicyColumns; readonly rest?: never }
  | { readonly set?: never; readonly policies?: never; readonly rest: Omit<ComparedBundle, "sets"> };

/** What the thread that checks starts with: the bundle's first parts, and whether those are all. */
export interface CheckStart {
  readonly parts: readonly BundlePart[];
  readonly isWhole: boolean;
}
/** The next part of the bundle; or that there are no more, and then that another part of the result is wanted. */
export type ToChecker = BundlePart | "more";
/** The next part of the result, or that there is none yet. */
export type FromChecker = CheckPart | "next";

export function* checkParts({ sets, ...rest }: ComparedBundle): Generator<CheckPart, undefined> {
  for (const [set, { columns }] of sets) yield { set, policies: columns };
  yield { rest };
}

/** What the parts were made of. */
export class CheckAssembly {
  readonly #sets = new Map<string, PolicyTable>();

  /** Takes the next part; gives the whole with the last. */
  take(part: CheckPart): ComparedBundle | undefined {
    if (part.rest !== undefined) return { sets: this.#sets, ...part.rest };
    this.#sets.set(part.set, new PolicyTable(part.policies));
    return undefined;
  }
}
