/** Checkpoints that commands sign. */
import type { LogState } from "../../ledger/ports/store.ts";
import { LogSigner } from "../../ledger/tlog/signer.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { KeyFileError, readKeyFile, type SigningKeys } from "../../stores/files/key-file.ts";
import { Refusal } from "../frame/output.ts";
import type { OpenedStore } from "../frame/store.ts";

export interface SignedState {
  /** With the stored cosignatures of this tree. */
  readonly checkpoint: string;
  /** Its state: the requested one, or the newest before it that the anchor confirms. */
  readonly head: LogState;
  /** Verifier keys of the log, the current one first. */
  readonly verifierKeys: readonly string[];
}

/**
 * Signs the newest state, up to the given one, that may be signed; throws a Refusal if the anchor or the key does not
 * allow it. Changes neither.
 */
export async function signed(opened: OpenedStore, committed: LogState): Promise<SignedState> {
  const { archive } = opened;
  const keys = await ownKeys(opened);
  const signable = await archive.signable(committed);
  if ("problem" in signable) throw new Refusal(signable.problem);
  const { head } = signable;
  const signer = new LogSigner(keys);
  const cosignatures = (await archive.cosignatures())
    .filter(({ tenantId, size, root }) => tenantId === head.tenantId && size === head.size && sameHash(root, head.root))
    .map(({ line }) => line);
  const checkpoint = signer.sign(head) + cosignatures.join("");
  return { checkpoint, head, verifierKeys: signer.verifierKeys(head.origin) };
}

/**
 * The keys of the file, of which one must be the store's newest: a service that rotates puts the next before it.
 * Verifiers of the log would not accept a signature by other keys.
 */
export async function ownKeys({ archive, keyPath }: OpenedStore): Promise<SigningKeys> {
  const keys = readKeys(keyPath, "if no key ever signed here, `keys generate` makes it");
  const newest = (await archive.signingKeys()).at(-1);
  if (newest === undefined || keys.some(({ publicKey }) => sameHash(publicKey, newest))) return keys;
  throw new Refusal(`${keyPath} does not have the key that signs the logs of this store.`);
}

/** The keys of the file; throws a Refusal if it is invalid. */
export function readKeys(path: string, remedy?: string): SigningKeys {
  let keys: SigningKeys | undefined;
  try {
    keys = readKeyFile(path);
  } catch (error) {
    if (error instanceof KeyFileError) throw new Refusal(error.message);
    throw error;
  }
  if (keys === undefined) throw new Refusal(`${path} is missing${remedy === undefined ? "" : `; ${remedy}`}`);
  return keys;
}
