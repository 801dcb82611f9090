/** The work of the hashing thread. */
import { createHash } from "node:crypto";
import type { Job, JobResult } from "./job.ts";

/**
 * Decodes and hashes. Takes standard base64 only (RFC 4648 §4): padded, no whitespace, canonical. Node's decoder is
 * lenient, so encoding again must give the very same text.
 */
export function hashObject({ objectBase64, hashes, maxBytes }: Job): JobResult {
  const bytes = Buffer.from(objectBase64, "base64");
  if (bytes.length > maxBytes) return { problem: "too_large" };
  if (bytes.toString("base64") !== objectBase64) return { problem: "malformed" };
  const digests = new Map(hashes.map((name) => [name, createHash(name).update(bytes).digest("hex")]));
  return { sizeBytes: bytes.length, digests };
}
