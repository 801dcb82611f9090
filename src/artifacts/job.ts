/** What the event loop and the hashing thread say to each other. */
import type { HashName } from "../domain/ports.ts";

/** One object to decode and hash. */
export interface Job {
  readonly objectBase64: string;
  readonly hashes: readonly HashName[];
  readonly maxBytes: number;
}

/** What became of it. */
export type JobResult =
  | { readonly sizeBytes: number; readonly digests: ReadonlyMap<HashName, string> }
  | { readonly problem: "malformed" | "too_large" };
