/**
 * How the main thread hands policies over to its workers: in parts, each when a worker asks for it. Those of a hundred
 * tenants in one message would hold up both threads for as long as callers notice.
 */
import { CheckAssembly, type CheckPart, checkParts } from "../../policy/check/check-parts.ts";
import type { PolicyBundle } from "../../policy/load/bundle.ts";
import type { GoodPolicy } from "../live-policy.ts";

type SetFiles = PolicyBundle["sets"][string];

/** The bundle but for its sets; the files of each set; and what was found out about them, part by part. */
export type PolicyPart =
  | { readonly bundle: Omit<PolicyBundle, "sets"> }
  | { readonly name: string; readonly files: SetFiles }
  | { readonly checked: CheckPart };

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

function* partsOf({ bundle: { sets, ...bundle }, checked }: GoodPolicy): Generator<PolicyPart> {
  yield { bundle };
  for (const [name, files] of Object.entries(sets)) yield { name, files };
  for (const part of checkParts(checked)) yield { checked: part };
}

/** Takes a policy by its parts. */
export async function takePolicy(partAt: (index: number) => Promise<PolicyPart>): Promise<GoodPolicy> {
  const assembly = new CheckAssembly();
  const sets: [string, SetFiles][] = [];
  let rest: Omit<PolicyBundle, "sets"> | undefined;
  for (let index = 0; ; index++) {
    const part = await partAt(index);
    if ("bundle" in part) rest = part.bundle;
    else if ("files" in part) sets.push([part.name, part.files]);
    else {
      const checked = assembly.take(part.checked);
      if (checked === undefined) continue;
      if (rest === undefined) throw new TypeError("the bundle comes before what was found out about it");
      return { bundle: { ...rest, sets: Object.fromEntries(sets) }, checked };
    }
  }
}
