/** Entry of the hashing thread: takes and answers one job at a time. */
import { createHash } from "node:crypto";
import { parentPort } from "node:worker_threads";
import type { HashName } from "../ledger/artifacts/digest.ts";

parentPort?.on("message", (job: Job) => parentPort?.postMessage(hashObject(job)));

/** Characters decoded at a time: four carry three bytes, and the whole object is never in memory. */
const pieceChars = 256 * 1024;

/**
 * Decodes and hashes. Accepts standard base64 only (RFC 4648 §4): padded, no whitespace, canonical. Node's decoder is
 * lenient, so encoding again must give the same text, and only the last piece may be short.
 */
function hashObject({ base64, hashes, maxBytes }: Job): JobResult {
  const text = Buffer.from(base64.buffer, base64.byteOffset, base64.byteLength);
  const padding = text.at(-2) === 0x3d ? 2 : text.at(-1) === 0x3d ? 1 : 0;
  const sizeBytes = Math.floor(text.byteLength / 4) * 3 - padding;
  if (sizeBytes > maxBytes) return { problem: "too_large" };
  const sums = hashes.map((name) => [name, createHash(name)] as const);
  for (let at = 0; at < text.byteLength; at += pieceChars) {
    const piece = text.toString("latin1", at, at + pieceChars);
    const bytes = Buffer.from(piece, "base64");
    const isWhole = at + pieceChars >= text.byteLength || bytes.byteLength === (pieceChars / 4) * 3;
    if (!isWhole || bytes.toString("base64") !== piece) return { problem: "malformed" };
    for (const [, sum] of sums) sum.update(bytes);
  }
  return { sizeBytes, digests: new Map(sums.map(([name, sum]) => [name, sum.digest("hex")])) };
}

export interface Job {
  /** Its base64, one byte per character. Transferred without a copy. */
  readonly base64: Uint8Array;
  readonly hashes: readonly HashName[];
  readonly maxBytes: number;
}

export type JobResult =
  | { readonly sizeBytes: number; readonly digests: ReadonlyMap<HashName, string> }
  | { readonly problem: "malformed" | "too_large" };
