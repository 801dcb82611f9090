/** Checkpoints that commands sign. */
import { LogSigner } from "../ledger/signer.ts";
import type { LogState } from "../ledger/store.ts";
import { sameHash } from "../ledger/tree.ts";
import { KeyFileError, readKeyFile } from "../stores/key-file.ts";
import type { OpenedStore } from "./ledger-store.ts";
import type { Output } from "./output.ts";

export interface SignedState {
  /** With the cosignatures of this very tree that the store keeps. */
  readonly checkpoint: string;
  /** Verifier keys of the log, the current one first. */
  readonly verifierKeys: readonly string[];
}

/** Signs a committed state; where its anchor or the key does not allow that, reports why and resolves with undefined. */
export async function signOrReport(
  { archive, keyPath }: OpenedStore,
  head: LogState,
  output: Output,
): Promise<SignedState | undefined> {
  const keys = readKeys(keyPath);
  const problem = typeof keys === "string" ? keys : await archive.anchorForSigning(head);
  if (typeof keys === "string" || problem !== undefined) {
    output.fail([problem ?? ""]);
    return undefined;
  }
  const signer = new LogSigner(keys);
  const cosignatures = (await archive.cosignatures())
    .filter(({ tenantId, size, root }) => tenantId === head.tenantId && size === head.size && sameHash(root, head.root))
    .map(({ line }) => line);
  return { checkpoint: signer.sign(head) + cosignatures.join(""), verifierKeys: signer.verifierKeys(head.origin) };
}

/** The keys, or what is wrong with their file. */
function readKeys(path: string) {
  try {
    return readKeyFile(path) ?? `${path} is missing`;
  } catch (error) {
    if (error instanceof KeyFileError) return error.message;
    throw error;
  }
}
