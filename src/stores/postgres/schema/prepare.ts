/** Checks before a store may be written to: schema, anchor and key. */
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill } from "../../../base/ids.ts";
import { sameHash } from "../../../ledger/tlog/tree.ts";
import { IncompatibleStoreError } from "../../errors.ts";
import { makeKeys, readKeyFile, type SigningKeys } from "../../key-file.ts";
import { findAnchorProblems, readStoreId } from "../../sql/anchoring.ts";
import { readCopyState, requireServable } from "../../sql/copy-state.ts";
import { heads, isTimeAccepted } from "../../sql/log-rows.ts";
import type { Queries, Statement } from "../../sql/queries.ts";
import type { SqliteAnchor } from "../../sqlite/log/anchor.ts";
import { aheadError, isAhead } from "../../store-checks.ts";
import type { ConnectionPool } from "../connection/pool.ts";
import type { LogWriter } from "../log/log-writer.ts";
import { isDistributed, requireDurableNodes } from "./distribute.ts";
import { requireSchema } from "./migrate.ts";

export interface PrepareOptions {
  readonly pool: ConnectionPool;
  readonly anchor: SqliteAnchor | undefined;
  /** Path of the anchor, if there is one. */
  readonly anchorPath: string | undefined;
  /** Path of the file of the keys that sign checkpoints, the same one on every replica. */
  readonly keyPath: string;
  readonly clock: Clock;
  readonly random: RandomFill;
}

const newestKey: Statement = {
  name: "newest_key",
  text: "SELECT public_key FROM signing_keys ORDER BY position DESC LIMIT 1",
};
const someLog: Statement = { name: "some_log", text: "SELECT tenant_id FROM log_heads LIMIT 1" };
const noteKey: Statement = {
  name: "note_key",
  text: `INSERT INTO signing_keys (position, public_key)
         SELECT coalesce(max(position), -1) + 1, $1::bytea FROM signing_keys ON CONFLICT DO NOTHING`,
};
/** A row that all replicas see, on any node of a cluster. */
const keysLock: Statement = { name: "lock_keys", text: "SELECT FROM store WHERE singleton = 1 FOR UPDATE" };

/**
 * Requires this program's schema, checks every log against the anchor if there is one, and loads the keys. A key is
 * made only if the store and the anchor are empty. Replicas that start at once take turns. Rejects with
 * `IncompatibleStoreError` naming every problem; nothing may be signed then.
 */
export async function prepareStore(options: PrepareOptions): Promise<SigningKeys> {
  await requireSchema(options.pool);
  requireServable(await readCopyState(options.pool), "The database");
  if (await isDistributed(options.pool)) await requireDurableNodes(options.pool);
  await checkAnchor(options);
  const nowMs = options.clock.now();
  for (const head of await heads(options.pool))
    if (isAhead(head, nowMs) && !(await isTimeAccepted(options.pool, head))) throw aheadError(head, nowMs);
  return admitKeys(options);
}

async function checkAnchor({ pool, anchor, anchorPath }: PrepareOptions): Promise<void> {
  const storeId = await readStoreId(pool);
  if (anchor === undefined || anchorPath === undefined) return;
  if (anchor.storeId() === undefined) return anchor.adopt(storeId, await heads(pool));
  const problems = await findAnchorProblems(pool, anchor, anchorPath);
  if (problems.length > 0)
    throw new IncompatibleStoreError(
      `The store is not what its anchor says: nothing may be signed.\n${problems.map(({ message }) => message).join("\n")}`,
    );
}

/** Returns the keys of the file, which must hold the key that signs the store's logs. */
async function admitKeys(options: PrepareOptions): Promise<SigningKeys> {
  const { pool, keyPath } = options;
  return pool.transaction(async (connection) => {
    await connection.query(keysLock, []);
    // Again, under the lock: a copy that began meanwhile held it.
    requireServable(await readCopyState(connection), "The database");
    const previous = (await connection.query(newestKey, [])).rows[0]?.public_key as Uint8Array | undefined;
    const keys = readKeyFile(keyPath) ?? (await makeFirstKeys(connection, options, previous));
    const [current, ...retiring] = keys;
    if (previous !== undefined && sameHash(current.publicKey, previous)) return keys;
    // Only the holder of the old key may hand over to a new one.
    if (previous !== undefined && !retiring.some(({ publicKey }) => sameHash(publicKey, previous)))
      throw new IncompatibleStoreError(`${keyPath} is not the key that signs the logs of this store.`);
    await connection.query(noteKey, [current.publicKey]);
    return keys;
  });
}

async function makeFirstKeys(
  queries: Queries,
  { anchor, keyPath, random }: PrepareOptions,
  previous: Uint8Array | undefined,
): Promise<SigningKeys> {
  const hasLogs = (await queries.query(someLog, [])).rows.length > 0;
  const isEmpty = !hasLogs && previous === undefined && [...(anchor?.all() ?? [])].length === 0;
  const keys = isEmpty ? makeKeys(keyPath, random) : undefined;
  if (keys !== undefined) return keys;
  throw new IncompatibleStoreError(
    `${keyPath} is missing, and this store has a key or logs. Put the key there that signs them: every replica has the ` +
      "same one.",
  );
}

/**
 * Hands every log over to the store's newest key: a leaf says that this key signs from there on. Each log has its own
 * transaction. An interrupted rotation, or one that another replica runs too, continues with logs that still have an
 * older key.
 */
export async function handOverLogs(pool: ConnectionPool, writer: LogWriter, position: number): Promise<void> {
  const older = (await heads(pool)).filter(({ keyPosition }) => keyPosition < position);
  for (const { tenantId } of older) await writer.handOver(tenantId);
}
