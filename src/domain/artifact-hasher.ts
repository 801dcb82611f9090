/** Hashes artifact objects one at a time, a piece in each turn of the event loop, so that no other caller waits long. */
import { createHash } from "node:crypto";
import { invalidRequest, overloaded, ServiceError } from "../base/errors.ts";
import { createFairSemaphore } from "../base/fair-queue.ts";
import { localSums } from "../base/sums.ts";
import type { HashName } from "../ledger/artifacts/digest.ts";
import type { ArtifactDigests, ArtifactHasher } from "./ports.ts";

const field = "artifact_object_b64";
/** Largest object, decoded: 8 MiB. */
export const maxObjectBytes = 8 * 1024 * 1024;
/** Characters decoded and hashed in one turn, in a fraction of a millisecond: four carry three bytes. */
const pieceChars = 64 * 1024;

interface HasherOptions {
  /** Characters of base64 that may wait or be at work, over all tenants. Default 64 Mi: 6 objects of full size. */
  readonly maxPendingChars?: number;
  /** The same for one tenant. Default 32 Mi: 3 objects of full size. */
  readonly maxTenantPendingChars?: number;
  /** Called with the milliseconds that an object waited, when its turn comes. */
  readonly onWaited?: (waitedMs: number) => void;
}

export interface QueuedHasher extends ArtifactHasher {
  /** Objects that wait for their turn. */
  readonly waiting: number;
  /** Rejects all queued and running hashes. */
  close(): void;
}

export function createArtifactHasher({
  maxPendingChars = 64 * 1024 * 1024,
  maxTenantPendingChars = 32 * 1024 * 1024,
  onWaited = () => {},
}: HasherOptions = {}): QueuedHasher {
  /** The queue is bounded by characters, not by entries. */
  const unbounded = Number.POSITIVE_INFINITY;
  const turns = createFairSemaphore({ maximum: 1, maximumWaitingEach: unbounded, maximumWaiting: unbounded });
  /** Characters that are queued or being hashed, by tenant and in total. */
  const pendingChars = localSums();
  const closing = new AbortController();
  return {
    get waiting() {
      return turns.waiting;
    },
    async digest(tenantId, objectBase64, hashes, leaving) {
      const signal = AbortSignal.any([leaving, closing.signal]);
      signal.throwIfAborted();
      if (sizeOf(objectBase64) > maxObjectBytes)
        throw invalidRequest(field, "bytes.max_len", `${field} exceeds 8 MiB when decoded`);
      const { length } = objectBase64;
      const shares = [
        { name: `tenant ${tenantId}`, maximum: maxTenantPendingChars },
        { name: "all", maximum: maxPendingChars },
      ];
      if (pendingChars.addAll(shares, length) !== undefined)
        throw overloaded("too many artifact objects wait to be hashed");
      const sinceMs = performance.now();
      const work = () => {
        onWaited(performance.now() - sinceMs);
        return hashObject(objectBase64, hashes, signal);
      };
      try {
        return await turns.run(tenantId, work, signal);
      } finally {
        for (const { name } of shares) pendingChars.subtract(name, length);
      }
    },
    close: () => closing.abort(new ServiceError("internal", "the service is stopping")),
  };
}

/** Bytes of the object if the text is canonical base64. */
function sizeOf(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.floor(base64.length / 4) * 3 - padding;
}

/**
 * Decodes and hashes; the whole object is never in memory. Accepts standard base64 only (RFC 4648 §4): padded, no
 * whitespace, canonical. Node's decoder is lenient, so encoding again must give the same text, and only the last piece
 * may be short.
 */
async function hashObject(base64: string, hashes: readonly HashName[], signal: AbortSignal): Promise<ArtifactDigests> {
  const sums = hashes.map((name) => [name, createHash(name)] as const);
  for (let at = 0; at < base64.length; at += pieceChars) {
    if (at > 0) await new Promise(setImmediate);
    signal.throwIfAborted();
    const piece = base64.slice(at, at + pieceChars);
    const bytes = Buffer.from(piece, "base64");
    const isWhole = at + pieceChars >= base64.length || bytes.byteLength === (pieceChars / 4) * 3;
    if (!isWhole || bytes.toString("base64") !== piece)
      throw invalidRequest(field, "string.base64", `${field} is not canonical standard base64`);
    for (const [, sum] of sums) sum.update(bytes);
  }
  return { sizeBytes: sizeOf(base64), digests: new Map(sums.map(([name, sum]) => [name, sum.digest("hex")])) };
}
