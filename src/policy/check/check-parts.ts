/** How a thread hands a checked bundle over to another: in parts, so that neither is held up by all of it at once. */
import type { BundlePart } from "../load/bundle-parts.ts";
import type { ComparedBundle } from "./check.ts";
import type { CheckedPolicy } from "./check-policy.ts";

/** Some policies of a set at a time, in their order; and in the end all else. */
export type CheckPart =
  | { readonly set: string; readonly policies: readonly CheckedPolicy[]; readonly rest?: never }
  | { readonly set?: never; readonly policies?: never; readonly rest: Omit<ComparedBundle, "sets"> };

/** Policies that are handed over together: to take them costs the other thread some 10 µs each. */
const policiesTogether = 100;

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
  for (const [set, policies] of sets) {
    yield { set, policies: policies.slice(0, policiesTogether) };
    for (let from = policiesTogether; from < policies.length; from += policiesTogether) {
      yield { set, policies: policies.slice(from, from + policiesTogether) };
    }
  }
  yield { rest };
}

/** What the parts were made of. */
export class CheckAssembly {
  readonly #sets = new Map<string, CheckedPolicy[]>();

  /** Takes the next part; gives the whole with the last. */
  take(part: CheckPart): ComparedBundle | undefined {
    if (part.rest !== undefined) return { sets: this.#sets, ...part.rest };
    const taken = this.#sets.get(part.set) ?? [];
    taken.push(...part.policies);
    this.#sets.set(part.set, taken);
    return undefined;
  }
}
