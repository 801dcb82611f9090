/**
 * How the main thread hands policies over to its workers: in parts, each when a worker asks for it. Those of a hundred
 * tenants in one message would hold up both threads for as long as callers notice.
 */
import { CheckAssembly, type CheckPart, checkParts } from "../../policy/check/check-parts.ts";
import { BundleAssembly, type BundlePart, bundleParts } from "../../policy/load/bundle-parts.ts";
import type { GoodPolicy } from "../live-policy.ts";

/** The bundle, and then what was found out about it. */
export type PolicyPart =
  | { readonly bundle: BundlePart; readonly checked?: never }
  | { readonly bundle?: never; readonly checked: CheckPart };

/** Policies that workers may ask for, by number. */
export class PolicyOffers {
  readonly #parts = new Map<number, readonly PolicyPart[]>();
  #made = 0;

  /** Offers a policy until `end`. */
  add(policy: GoodPolicy): number {
    const offer = this.#made++;
    this.#parts.set(offer, [...partsOf(policy)]);
    return offer;
  }

  /** Throws where the policy is not on offer. */
  part(offer: number, index: number): PolicyPart {
    const part = this.#parts.get(offer)?.[index];
    if (part === undefined) throw new RangeError("the policy is not on offer any more");
    return part;
  }

  end(offer: number): void {
    this.#parts.delete(offer);
  }
}

function* partsOf({ bundle, checked }: GoodPolicy): Generator<PolicyPart> {
  for (const part of bundleParts(bundle)) yield { bundle: part };
  for (const part of checkParts(checked)) yield { checked: part };
}

/** Takes a policy by its parts. */
export async function takePolicy(partAt: (index: number) => Promise<PolicyPart>): Promise<GoodPolicy> {
  const [bundle, policies] = [new BundleAssembly(), new CheckAssembly()];
  for (let index = 0; ; index++) {
    const part = await partAt(index);
    if (part.bundle !== undefined) bundle.take(part.bundle);
    else {
      const checked = policies.take(part.checked);
      if (checked !== undefined) return { bundle: bundle.whole(), checked };
    }
  }
}
