/** Texts of C2SP tlog-witness `add-checkpoint`, and the interface to its transport. */
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

export type WitnessAnswer =
  /** Signature lines, not verified. */
  | { readonly kind: "cosigned"; readonly lines: string }
  /** The witness's newest cosigned size, which differs from the request's. */
  | { readonly kind: "conflict"; readonly size: number }
  /** The proof does not lead from the witness's cosigned tree to the request's. */
  | { readonly kind: "inconsistent" }
  /** The witness does not know this log, or its signing key. */
  | { readonly kind: "unknown_log" }
  | { readonly kind: "untrusted_key" };

export interface WitnessClient {
  /**
   * Sends the body of an `add-checkpoint`. Resolves in bounded time; rejects with an Error, with a message for the
   * operator, if the witness cannot be reached or violates the protocol.
   */
  addCheckpoint(body: string): Promise<WitnessAnswer>;
}
