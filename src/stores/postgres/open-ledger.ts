/** Opens the ledger of a deployment on PostgreSQL. */
import { resolve } from "node:path";
import { systemTimers, type Timers } from "../../base/timers.ts";
import { ledgerOver } from "../../ledger/append/ledger.ts";
import { type AppenderLimits, defaultAppenderLimits } from "../../ledger/append/limits.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import { requireOriginPrefix } from "../../ledger/tlog/log-name.ts";
import { openAnchor, type SqliteAnchor } from "../files/anchor.ts";
import type { SigningKeys } from "../files/key-file.ts";
import type { ServiceMachine, ServiceStores } from "../sql/backend.ts";
import { findUndone } from "../sql/erasure.ts";
import { KeyRing, SigningKeysOfStore } from "../sql/key-ring.ts";
import { heads } from "../sql/log-rows.ts";
import { admitKeys, checkAnchor, checkLogs, readCopyState, requireServable } from "../sql/store-checks.ts";
import { slowAfterMs } from "./connection/bulkhead.ts";
import type { ConnectionSettings } from "./connection/client-options.ts";
import { ConnectionPool } from "./connection/pool.ts";
import { LogWriter } from "./log-writer.ts";
import { isDistributed, requireDurableNodes } from "./schema/distribute.ts";
import { requireSchema } from "./schema/schema.ts";
import { postgresStore } from "./store.ts";

/** Options of the ledger. The database must have this program's schema; the key is made if the store is empty. */
export interface PostgresLedgerOptions extends ConnectionSettings, ServiceMachine {
  /** Path of the file of the keys that sign checkpoints, the same one on every replica. */
  readonly keyPath: string;
  /** Path of the anchor, for the replicas of one machine; without one, a restored older store goes undetected. */
  readonly anchorPath?: string | undefined;
  /** Prefix of a log's origin, before its random part, such as `ledger.example.org/logs`. */
  readonly originPrefix: string;
  /** Default: the runtime's. */
  readonly timers?: Timers;
  /** Bounds of the queues and batches. Writes in flight leave two connections to readers. */
  readonly limits?: Partial<AppenderLimits>;
  /** Default 10. */
  readonly poolSize?: number;
  /** Bound of all that a record, or a lookup, waits for: queue, connection, locks, statements. Default 5,000 ms. */
  readonly timeoutMs?: number;
}

const defaultPoolSize = 10;
const defaultTimeoutMs = 5_000;

/** Short, because it blocks the event loop. Replicas hold the lock of the anchor for microseconds. */
const anchorBusyTimeoutMs = 500;

/** A transaction of many tenants at a time, and readers: two connections. */
const reservedConnections = 3;

/**
 * Opens the stores. Rejects with `IncompatibleStoreError` if the schema is not this program's, the database is not
 * durable, a log contradicts the anchor, or the key or the origin is not the store's own; with an error of the driver or
 * the file system if it cannot be opened.
 */
export async function openPostgresStores(options: PostgresLedgerOptions): Promise<ServiceStores> {
  const { target, passwordFile, originPrefix, clock, random, logger } = options;
  const { poolSize = defaultPoolSize, timeoutMs = defaultTimeoutMs, timers = systemTimers } = options;
  requireOriginPrefix(originPrefix);
  const pool = new ConnectionPool({ target, passwordFile, poolSize, timeoutMs, timers, logger });
  let anchor: SqliteAnchor | undefined;
  try {
    const anchorPath = options.anchorPath === undefined ? undefined : resolve(options.anchorPath);
    anchor = anchorPath === undefined ? undefined : openAnchor(anchorPath, anchorBusyTimeoutMs);
    const keyPath = resolve(options.keyPath);
    const admitted = await prepareStore(pool, options, anchorPath, { anchor, keyPath, random });
    const signer = new KeyRing(admitted, { keyPath, logger });
    const keys = new SigningKeysOfStore(signer);
    await keys.follow(pool);
    const writer = new LogWriter({
      ...{ pool, anchor, originPrefix, keys, clock, random },
      maxApart: Math.max(1, poolSize - reservedConnections),
      isDistributed: await isDistributed(pool),
    });
    // Each log is handed over to the newest key in its own transaction: another replica may do the same, and the next
    // start continues an interrupted rotation.
    for (const { tenantId, keyPosition } of await heads(pool))
      if (keyPosition < keys.position) await writer.confirm(tenantId);
    for (const line of describeUndone(await findUndone(pool))) logger?.warn({}, `${line}; ${undoneRemedy}`);
    const store = postgresStore(pool, writer, { anchor, clock, keys });
    const bounds = { slowWriteMs: slowAfterMs, maxWaitMs: timeoutMs };
    const limits = { ...defaultAppenderLimits, ...bounds, ...options.limits };
    const shared = await options.openAnchor?.(store, signer);
    return {
      ledger: ledgerOver(store, signer, { limits, anchor: shared, events: options.events }),
      shared: store,
      stuck: () => pool.bulkhead.stuck,
    };
  } catch (error) {
    await pool.close();
    anchor?.close();
    throw error;
  }
}

/**
 * Locks a row that all replicas see, on any node of a cluster. A write, so that the commit confirms the key: another
 * process's commit of it may not be durable yet.
 */
const keysLock = "UPDATE store SET probed_at_ms = probed_at_ms WHERE singleton = 1";

/**
 * Requires this program's schema, checks every log against the anchor if there is one, and loads the keys. A key is
 * made only if the store and the anchor are empty. Replicas that start at once take turns. Rejects with
 * `IncompatibleStoreError` naming every problem; nothing may be signed then.
 */
async function prepareStore(
  pool: ConnectionPool,
  { clock, originPrefix }: Pick<PostgresLedgerOptions, "clock" | "originPrefix">,
  anchorPath: string | undefined,
  admission: Parameters<typeof admitKeys>[1],
): Promise<SigningKeys> {
  await requireSchema(pool);
  requireServable(await readCopyState(pool), "The database");
  if (await isDistributed(pool)) await requireDurableNodes(pool);
  const { anchor } = admission;
  const confirm = () => pool.transaction((connection) => connection.query(keysLock, []));
  if (anchor !== undefined && anchorPath !== undefined) await checkAnchor(pool, anchor, anchorPath, confirm);
  await checkLogs(pool, originPrefix, clock.now());
  return pool.transaction(async (connection) => {
    await connection.query(keysLock, []);
    // Again, under the lock: a copy that began meanwhile held it.
    requireServable(await readCopyState(connection), "The database");
    return admitKeys(connection, admission);
  });
}
