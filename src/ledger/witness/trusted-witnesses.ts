import type { Timers } from "../../base/timers.ts";
import { parseCosignerKey } from "./cosignature.ts";
import { httpWitness } from "./http-witness.ts";
import type { TrustedWitness } from "./witness-log.ts";

/** A witness as settings name it. */
export interface NamedWitness {
  /** Verifier key of its cosignatures (C2SP vkey, type 4). */
  readonly key: string;
  /** Submission prefix (C2SP tlog-witness). */
  readonly url: string;
}

/** The witnesses of `SVC_WITNESSES`. Throws, naming the setting, for a key that is none. */
export function trustedWitnesses(
  witnesses: readonly NamedWitness[],
  machine: { readonly fetch: typeof globalThis.fetch; readonly timers: Timers },
): readonly TrustedWitness[] {
  return witnesses.map(({ key, url }) => {
    const verifier = parseCosignerKey(key);
    if (verifier === undefined) throw new Error("SVC_WITNESSES: names a key that is none of Ed25519 cosignatures");
    return { verifier, client: httpWitness({ url, ...machine }) };
  });
}
