/** Options that name the trusted keys of a verification. */
import type { LogVerifier } from "../../ledger/tlog/checkpoint.ts";
import { parseTrustedKey } from "../../ledger/tlog/trusted-key.ts";
import { parseCosignerKey, type WitnessQuorum } from "../../ledger/witness/cosignature.ts";
import { gather } from "../frame/command.ts";
import { Refusal } from "../frame/output.ts";

export interface TrustOptions {
  readonly key?: readonly string[];
  readonly witness?: readonly string[];
  readonly quorum?: string;
}

/** Trusted keys and witnesses. */
export interface Trust {
  readonly keys: readonly LogVerifier[];
  /** Undefined if no witness is required. */
  readonly witnesses: WitnessQuorum | undefined;
}

/** `--key`, `--witness` and `--quorum`. */
export function trustFlags(keySays: string) {
  return {
    "--key <vkey>": { says: keySays, parse: gather },
    "--witness <vkey>": {
      says: "a verifier key of a witness that must have cosigned the checkpoint; several times for several",
      parse: gather,
    },
    "--quorum <count>": "number of witnesses that are enough (default: all)",
  } as const;
}

/** Reads the options. Throws a Refusal with their problems. */
export function readTrust({ key = [], witness = [], quorum }: TrustOptions): Trust {
  const keys = key.map(parseTrustedKey);
  if (keys.includes(undefined))
    throw new Refusal("--key: is not a verifier key (name+id+key, C2SP signed-note; @size behind a retired one)");
  const witnesses = witness.map(parseCosignerKey);
  if (witnesses.includes(undefined))
    throw new Refusal("--witness: is not a verifier key of Ed25519 cosignatures (name+id+key, type 4)");
  // One key under two names would count twice.
  const publicKeys = witness.map((vkey) => vkey.slice(vkey.lastIndexOf("+")));
  if (new Set(publicKeys).size < publicKeys.length) throw new Refusal("--witness: names a key twice");
  if (quorum !== undefined && witness.length === 0) throw new Refusal("--quorum: needs --witness");
  const count = quorum === undefined ? witness.length : Number(quorum);
  if (quorum !== undefined && !(/^[1-9][0-9]*$/.test(quorum) && count <= witness.length))
    throw new Refusal(`--quorum: must be 1 to ${witness.length}, the number of witnesses`);
  return {
    keys: keys as Trust["keys"],
    witnesses: witness.length === 0 ? undefined : { witnesses: witnesses as WitnessQuorum["witnesses"], quorum: count },
  };
}

/** The same for a command that has no other keys. */
export function requireTrust(options: TrustOptions): Trust {
  const trust = readTrust(options);
  if (trust.keys.length === 0) throw new Refusal("--key: is required");
  return trust;
}
