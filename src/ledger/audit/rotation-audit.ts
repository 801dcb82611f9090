/** Checks the rotations of a log: each key hands over to the next, and the last one signs. */
import type { StoredEntry } from "../ports/archive.ts";
import type { StoredRecord } from "../ports/record.ts";
import { parseLeaf } from "../record/leaf.ts";
import { readFirstKey, readRotation } from "../record/operator-records.ts";
import { open } from "../record/sealing.ts";
import { sameHash } from "../tlog/tree.ts";
import type { AuditProblem } from "./finding.ts";

export interface LogRotation {
  /** Index of its leaf, which is the size of the largest tree that the old key alone may have signed. */
  readonly leafIndex: number;
  /** 32 bytes, like the other. */
  readonly current: Uint8Array;
  readonly previous: Uint8Array;
}

export class RotationAudit {
  readonly #rotations: LogRotation[] = [];
  #firstKey: Uint8Array | undefined;

  /** Key in the genesis record; undefined in logs from before it was recorded. */
  get firstKey(): Uint8Array | undefined {
    return this.#firstKey;
  }

  get rotations(): readonly LogRotation[] {
    return this.#rotations;
  }

  /** Takes the record of the next leaf. Returns the problem. */
  next(leafIndex: number, record: StoredRecord | undefined): AuditProblem | undefined {
    if (record?.kind === "genesis") {
      const firstKey = readFirstKey(record);
      if (firstKey === "malformed") return { leafIndex, message: "the genesis record names an invalid key" };
      this.#firstKey = firstKey;
    }
    if (record?.kind !== "key_rotation") return undefined;
    const keys = readRotation(record);
    if (keys === undefined) return { leafIndex, message: `leaf ${leafIndex} does not name its keys` };
    const last = this.#rotations.at(-1);
    if (last === undefined && this.#firstKey !== undefined && !sameHash(this.#firstKey, keys.previous))
      return { leafIndex, message: `leaf ${leafIndex} retires another key than the one that the genesis record names` };
    if (last !== undefined && !sameHash(last.current, keys.previous))
      return {
        leafIndex,
        message: `leaf ${leafIndex} retires another key than the one that leaf ${last.leafIndex} brought`,
      };
    this.#rotations.push({ leafIndex, ...keys });
    return undefined;
  }
}

/** Finds the rotations of a log by its leaves, and checks nothing else. Throws if one cannot be read. */
export async function findRotations(entries: AsyncIterable<StoredEntry>): Promise<readonly LogRotation[]> {
  const audit = new RotationAudit();
  for await (const { leafIndex, leaf, sealed, opening } of entries) {
    const { kind, commitment } = parseLeaf(leaf);
    if (kind !== "key_rotation") continue;
    if (opening === undefined) throw new Error(`leaf ${leafIndex} of kind key_rotation cannot be opened`);
    const record = JSON.parse(Buffer.from(open(sealed, opening, commitment)).toString("utf8")) as StoredRecord;
    const problem = audit.next(leafIndex, record);
    if (problem !== undefined) throw new Error(problem.message);
  }
  return audit.rotations;
}

/**
 * Compares the rotations of a log with the keys that have signed the store's logs, up to the key that this log was
 * rotated to. A log that was opened later begins with a later key. Returns the problem.
 */
export function rotationProblem(
  { rotations, firstKey }: { readonly rotations: readonly LogRotation[]; readonly firstKey?: Uint8Array | undefined },
  signingKeys: readonly Uint8Array[],
): AuditProblem | undefined {
  // The rotation of a log to the newest key may be pending.
  if (firstKey !== undefined && !signingKeys.some((key) => sameHash(key, firstKey)))
    return { leafIndex: 0, message: "the genesis record names a key that never signed for this store" };
  const first = signingKeys.length - 1 - rotations.length;
  const wrong = rotations.find(({ current, previous }, position) => {
    const [from, to] = [signingKeys[first + position], signingKeys[first + position + 1]];
    return from === undefined || to === undefined || !sameHash(from, previous) || !sameHash(to, current);
  });
  if (wrong === undefined) return undefined;
  const { leafIndex } = wrong;
  return { leafIndex, message: `leaf ${leafIndex} hands over to a key that is not the next one of the store` };
}
