/** A bundle in parts, for another thread: all of a hundred tenants' policies in one message would hold up both threads. */
import type { PolicyBundle } from "./bundle.ts";

type SetFiles = PolicyBundle["sets"][string];

/** The bundle but for its sets; then the files of each set. */
export type BundlePart =
  | { readonly bundle: Omit<PolicyBundle, "sets"> }
  | { readonly name: string; readonly files: SetFiles };

export function* bundleParts({ sets, ...bundle }: PolicyBundle): Generator<BundlePart, undefined> {
  yield { bundle };
  for (const [name, files] of Object.entries(sets)) yield { name, files };
}

/** What the parts were made of. */
export class BundleAssembly {
  readonly #sets: [string, SetFiles][] = [];
  #rest: Omit<PolicyBundle, "sets"> | undefined;

  take(part: BundlePart): void {
    if ("bundle" in part) this.#rest = part.bundle;
    else this.#sets.push([part.name, part.files]);
  }

  /** Throws a TypeError where the first part is missing. */
  whole(): PolicyBundle {
    if (this.#rest === undefined) throw new TypeError("there is no bundle without its first part");
    return { ...this.#rest, sets: Object.fromEntries(this.#sets) };
  }
}
