/** What the event loop and the hashing thread say to each other. */
import type { HashName } from "../ports.ts";

/** One object to decode and hash. */
export interface Job {
  /** Its base64, a byte a character. Travels without being copied. */
  readonly base64: Uint8Array;
  readonly hashes: readonly HashName[];
  readonly maxBytes: number;
}

/** What became of it. */
export type JobResult =
  | { readonly sizeBytes: number; readonly digests: ReadonlyMap<HashName, string> }
  | { readonly problem: "malformed" | "too_large" };
