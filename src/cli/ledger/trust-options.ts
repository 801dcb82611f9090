/** The options by which whoever verifies says whom they trust. */
import type { Command } from "commander";
import type { LogVerifier } from "../../ledger/tlog/checkpoint.ts";
import { parseTrustedKey } from "../../ledger/tlog/trusted-key.ts";
import { parseCosignerKey, type WitnessQuorum } from "../../ledger/witness/cosignature.ts";

export interface TrustOptions {
  readonly key?: readonly string[];
  readonly witness?: readonly string[];
  readonly quorum?: string;
}

/** Whom the options name. */
export interface Trust {
  readonly keys: readonly LogVerifier[];
  /** Undefined where no witness is demanded. */
  readonly witnesses: WitnessQuorum | undefined;
}

/** Adds `--key`, `--witness` and `--quorum`. */
export function withTrustOptions(command: Command, keyDescription: string): Command {
  const list = (value: string, values: readonly string[] = []) => [...values, value];
  return command
    .option("--key <vkey>", keyDescription, list)
    .option(
      "--witness <vkey>",
      "a verifier key of a witness that must have cosigned the checkpoint; several times for several",
      list,
    )
    .option("--quorum <count>", "so many of the witnesses are enough; all of them where nothing is said");
}

/** Reads the options, or says what is wrong with them. */
export function readTrust({ key = [], witness = [], quorum }: TrustOptions): Trust | { readonly problem: string } {
  const keys = key.map(parseTrustedKey);
  if (keys.includes(undefined))
    return { problem: "--key: is no verifier key (name+id+key, C2SP signed-note; @size behind a retired one)" };
  const witnesses = witness.map(parseCosignerKey);
  if (witnesses.includes(undefined))
    return { problem: "--witness: is no verifier key of Ed25519 cosignatures (name+id+key, type 4)" };
  // One key under two names would count for two.
  const publicKeys = witness.map((vkey) => vkey.slice(vkey.lastIndexOf("+")));
  if (new Set(publicKeys).size < publicKeys.length) return { problem: "--witness: names a key twice" };
  if (quorum !== undefined && witness.length === 0) return { problem: "--quorum: needs --witness" };
  const count = quorum === undefined ? witness.length : Number(quorum);
  if (quorum !== undefined && !(/^[1-9][0-9]*$/.test(quorum) && count <= witness.length))
    return { problem: `--quorum: must be 1 to ${witness.length}, the number of witnesses` };
  return {
    keys: keys as Trust["keys"],
    witnesses: witness.length === 0 ? undefined : { witnesses: witnesses as WitnessQuorum["witnesses"], quorum: count },
  };
}
