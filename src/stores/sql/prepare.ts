/** Checks before a store may be written to, whatever its database: anchor, origins, times and keys. */
import type { RandomFill } from "../../base/ids.ts";
import { originPrefixProblem } from "../../ledger/tlog/log-name.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import { makeKeys, readKeyFile, type SigningKeys } from "../files/key-file.ts";
import { findAnchorProblems, readStoreId } from "./anchoring.ts";
import { heads, readPublicKeys } from "./log-rows.ts";
import type { Queries } from "./queries.ts";
import { aheadError, logsAhead } from "./store-checks.ts";

const noteKey = `INSERT INTO signing_keys (position, public_key)
  SELECT coalesce(max(position), -1) + 1, $1::bytea FROM signing_keys`;

const whatToDo =
  "Put the newest copy of the store back, with its -wal file if there is one. If there is no newer one, keep this one " +
  "for `ledger verify` and `ledger search`, and start with an empty store and another anchor (SVC_STORE, SVC_ANCHOR).";

/**
 * Notes all logs in a new anchor. Rejects with `IncompatibleStoreError` naming every difference to one in use.
 * @param confirm makes durable what was read; absent if whatever can be read is
 */
export async function checkAnchor(
  queries: Queries,
  anchor: SqliteAnchor,
  anchorPath: string,
  confirm?: () => Promise<unknown>,
): Promise<void> {
  const storeId = await readStoreId(queries);
  let anchored = anchor.storeId();
  if (anchored === undefined) {
    const logs = await heads(queries);
    await confirm?.();
    anchored = anchor.adopt(storeId, logs);
  }
  if (anchored !== storeId)
    throw new IncompatibleStoreError(
      `${anchorPath} is the anchor of another store: nothing may be signed. Put the store or the anchor back that ` +
        "belong together (SVC_STORE, SVC_ANCHOR).",
    );
  const problems = (await findAnchorProblems(queries, anchor, anchorPath)).map(({ message }) => message);
  if (problems.length > 0)
    throw new IncompatibleStoreError(
      `The store is not what its anchor says: nothing may be signed.\n${problems.join("\n")}\n${whatToDo}`,
    );
}

/**
 * Rejects with `IncompatibleStoreError` if the store has logs, and none with the prefix of new ones; or if a log is ahead
 * of the clock, and no operator accepted its time.
 */
export async function checkLogs(queries: Queries, originPrefix: string, nowMs: number): Promise<void> {
  const origins = (await heads(queries)).map(({ origin }) => origin);
  const problem = originPrefixProblem(origins, originPrefix);
  if (problem !== undefined) throw new IncompatibleStoreError(problem, "SVC_LEDGER_ORIGIN");
  for (const head of await logsAhead(queries, nowMs)) throw aheadError(head, nowMs);
}

export interface Admission {
  readonly anchor: SqliteAnchor | undefined;
  /** Path of the file of the keys that sign checkpoints. */
  readonly keyPath: string;
  readonly random: RandomFill;
}

/**
 * Returns the keys of the file, which must hold the key that signs the store's logs, and notes the current one; a key
 * is made only if store and anchor are empty. Must be called under a lock.
 */
export async function admitKeys(queries: Queries, { anchor, keyPath, random }: Admission): Promise<SigningKeys> {
  const previous = (await readPublicKeys(queries)).at(-1);
  const hasLogs = (await heads(queries)).length > 0;
  const isEmpty = !hasLogs && previous === undefined && (anchor === undefined || anchor.all().length === 0);
  const keys = readKeyFile(keyPath) ?? (isEmpty ? makeKeys(keyPath, random) : undefined);
  if (keys === undefined)
    throw new IncompatibleStoreError(
      `${keyPath} is missing, and this store has a key or logs. Put the key back that signs them: every replica has the ` +
        "same one. If nothing was ever signed, make one with `keys generate`.",
      "SVC_LEDGER_KEY",
    );
  const [current, ...retiring] = keys;
  if (previous !== undefined && sameHash(current.publicKey, previous)) return keys;
  // Only the holder of the old key may hand over to a new one.
  if (previous !== undefined && !retiring.some(({ publicKey }) => sameHash(publicKey, previous)))
    throw new IncompatibleStoreError(`${keyPath} is not the key that signs the logs of this store.`, "SVC_LEDGER_KEY");
  await queries.query(noteKey, [current.publicKey]);
  return keys;
}
