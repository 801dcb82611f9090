/** Checks before a store may be written to: schema, anchor and key. */
import type { Clock } from "../../base/clock.ts";
import type { SigningKeys } from "../files/key-file.ts";
import { readCopyState, requireServable } from "../sql/copy-state.ts";
import { heads } from "../sql/log-rows.ts";
import { type Admission, admitKeys, checkAnchor, checkTimes } from "../sql/prepare.ts";
import type { Statement } from "../sql/queries.ts";
import type { ConnectionPool } from "./connection/pool.ts";
import type { LogWriter } from "./log-writer.ts";
import { isDistributed, requireDurableNodes } from "./schema/distribute.ts";
import { requireSchema } from "./schema/migrate.ts";

export interface PrepareOptions extends Admission {
  readonly pool: ConnectionPool;
  /** Path of the anchor, if there is one. */
  readonly anchorPath: string | undefined;
  readonly clock: Clock;
}

/**
 * Locks a row that all replicas see, on any node of a cluster. A write, so that the commit confirms the key: another
 * process's commit of it may not be durable yet.
 */
const keysLock: Statement = {
  name: "lock_keys",
  text: "UPDATE store SET probed_at_ms = probed_at_ms WHERE singleton = 1",
};

/**
 * Requires this program's schema, checks every log against the anchor if there is one, and loads the keys. A key is
 * made only if the store and the anchor are empty. Replicas that start at once take turns. Rejects with
 * `IncompatibleStoreError` naming every problem; nothing may be signed then.
 */
export async function prepareStore(options: PrepareOptions): Promise<SigningKeys> {
  await requireSchema(options.pool);
  requireServable(await readCopyState(options.pool), "The database");
  if (await isDistributed(options.pool)) await requireDurableNodes(options.pool);
  const { pool, anchor, anchorPath, clock } = options;
  const confirm = () => pool.transaction((connection) => connection.query(keysLock, []));
  if (anchor !== undefined && anchorPath !== undefined) await checkAnchor(pool, anchor, anchorPath, confirm);
  await checkTimes(pool, clock.now());
  return pool.transaction(async (connection) => {
    await connection.query(keysLock, []);
    // Again, under the lock: a copy that began meanwhile held it.
    requireServable(await readCopyState(connection), "The database");
    return admitKeys(connection, options);
  });
}

/**
 * Hands every log over to the store's newest key: a leaf says that this key signs from there on. Each log has its own
 * transaction. An interrupted rotation, or one that another replica runs too, continues with logs that still have an
 * older key.
 */
export async function handOverLogs(pool: ConnectionPool, writer: LogWriter, position: number): Promise<void> {
  const older = (await heads(pool)).filter(({ keyPosition }) => keyPosition < position);
  for (const { tenantId } of older) await writer.confirm(tenantId);
}
