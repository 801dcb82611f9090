/** The texts of C2SP tlog-witness `add-checkpoint`, and who carries them. */
import { parseDecimal } from "../../base/text-forms.ts";
import { formatPath } from "../tlog/tlog-proof.ts";
import type { Hash } from "../tlog/tree.ts";

/** Body of a request: the size that the witness knows, a consistency proof from there, and the signed checkpoint. */
export function formatAddCheckpoint(oldSize: number, proof: readonly Hash[], checkpoint: string): string {
  return `old ${oldSize}\n${formatPath(proof)}\n${checkpoint}`;
}

/** The size in the body of a 409: a decimal number and a newline. Undefined for any other text. */
export function parseWitnessSize(body: string): number | undefined {
  return body.endsWith("\n") ? parseDecimal(body.slice(0, -1)) : undefined;
}

/** What a witness answered. */
export type WitnessAnswer =
  /** Lines of signatures, as they came: nothing of them is verified. */
  | { readonly kind: "cosigned"; readonly lines: string }
  /** The newest size that it has cosigned is this one, not the one that the request named. */
  | { readonly kind: "conflict"; readonly size: number }
  /** The proof does not lead from the tree that it has cosigned to the one of the request. */
  | { readonly kind: "inconsistent" }
  /** It was not told of this log, or not of the key that signs it. */
  | { readonly kind: "unknown_log" }
  | { readonly kind: "untrusted_key" };

/** Carries requests to one witness. */
export interface WitnessClient {
  /**
   * Sends the body of an `add-checkpoint`. Resolves in bounded time; rejects with an Error, whose message is for the
   * operator, where the witness cannot be reached or answers anything that the protocol does not have.
   */
  addCheckpoint(body: string): Promise<WitnessAnswer>;
}
