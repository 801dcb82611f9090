/** Checkpoints that commands sign. */

import type { LogState } from "../../ledger/ports/store.ts";
import { LogSigner } from "../../ledger/tlog/signer.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { KeyFileError, readKeyFile, type SigningKeys } from "../../stores/key-file.ts";
import type { Output } from "../output.ts";
import type { OpenedStore } from "./store.ts";

export interface SignedState {
  /** With the cosignatures of this very tree that the store keeps. */
  readonly checkpoint: string;
  /** What it is of: the state that was asked for, or the newest before it that the anchor knows of. */
  readonly head: LogState;
  /** Verifier keys of the log, the current one first. */
  readonly verifierKeys: readonly string[];
}

/**
 * Signs the newest state, up to the given one, that may be signed; where its anchor or the key does not allow that,
 * reports why and resolves with undefined. Changes neither.
 */
export async function signOrReport(
  opened: OpenedStore,
  committed: LogState,
  output: Output,
): Promise<SignedState | undefined> {
  const { archive } = opened;
  const keys = await ownKeysOrReport(opened, output);
  if (keys === undefined) return undefined;
  const signable = await archive.signable(committed);
  if ("problem" in signable) return reported(output, signable.problem);
  const { head } = signable;
  const signer = new LogSigner(keys);
  const cosignatures = (await archive.cosignatures())
    .filter(({ tenantId, size, root }) => tenantId === head.tenantId && size === head.size && sameHash(root, head.root))
    .map(({ line }) => line);
  const checkpoint = signer.sign(head) + cosignatures.join("");
  return { checkpoint, head, verifierKeys: signer.verifierKeys(head.origin) };
}

function reported(output: Output, problem: string): undefined {
  output.fail([problem]);
}

/**
 * The keys of the file, of which one must be the store's newest: a service that rotates puts the next before it. Where
 * the file is missing, or of other keys, reports it: what those sign is nothing to whoever trusts the log.
 */
export async function ownKeysOrReport(
  { archive, keyPath }: OpenedStore,
  output: Output,
): Promise<SigningKeys | undefined> {
  const keys = readKeys(keyPath);
  if (typeof keys === "string") return reported(output, keys);
  const newest = (await archive.signingKeys()).at(-1);
  if (newest === undefined || keys.some(({ publicKey }) => sameHash(publicKey, newest))) return keys;
  return reported(output, `${keyPath} does not have the key that signs the logs of this store.`);
}

/** The keys, or what is wrong with their file. */
function readKeys(path: string): SigningKeys | string {
  try {
    return readKeyFile(path) ?? `${path} is missing; where no key ever signed here, \`keys generate\` makes it`;
  } catch (error) {
    if (error instanceof KeyFileError) return error.message;
    throw error;
  }
}
