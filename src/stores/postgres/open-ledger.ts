/** Opens the ledger of a deployment on PostgreSQL. */
import { resolve } from "node:path";
import type { Clock } from "../../base/clock.ts";
import type { RandomFill } from "../../base/ids.ts";
import { systemTimers, type Timers } from "../../base/timers.ts";
import { StoredLedger } from "../../ledger/append/ledger.ts";
import { type AppenderLimits, defaultAppenderLimits } from "../../ledger/append/limits.ts";
import type { CommitObserver } from "../../ledger/append/observed.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import type { OpenSharedAnchor } from "../../ledger/ports/anchor.ts";
import { requireOriginPrefix } from "../../ledger/tlog/log-name.ts";
import type { ServiceStores, StoreLogger } from "../backend.ts";
import { KeyRing } from "../key-ring.ts";
import { findUndone } from "../sql/erasure.ts";
import type { SqliteAnchor } from "../sqlite/log/anchor.ts";
import { slowAfterMs } from "./connection/bulkhead.ts";
import type { ConnectionSettings } from "./connection/client-options.ts";
import { ConnectionPool } from "./connection/pool.ts";
import { openFileAnchor } from "./log/log-tools.ts";
import { LogWriter } from "./log/log-writer.ts";
import { SigningKeysOfStore } from "./log/signing-keys.ts";
import { isDistributed } from "./schema/distribute.ts";
import { handOverLogs, prepareStore } from "./schema/prepare.ts";
import { PostgresStore } from "./store.ts";

/** How to open the ledger. The database has this program's schema; the key is made where the store is empty. */
export interface PostgresLedgerOptions extends ConnectionSettings {
  /** Path of the file of the keys that sign checkpoints, the same one on every replica. */
  readonly keyPath: string;
  /** Path of the anchor, for the replicas of one machine; without one, a store that was put back goes unnoticed. */
  readonly anchorPath?: string | undefined;
  /** What stands before the random part of a log's origin, such as `ledger.example.org/logs`. */
  readonly originPrefix: string;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Default: the runtime's. */
  readonly timers?: Timers;
  readonly logger?: StoreLogger;
  /** Makes the anchor that replicas share over the network, where there is one. */
  readonly openAnchor?: OpenSharedAnchor | undefined;
  /** Told of every durable commit of records. */
  readonly commits?: CommitObserver | undefined;
  /** Bounds of the queues and batches. Writes in flight leave two connections to those who read. */
  readonly limits?: Partial<AppenderLimits>;
  /** Connections at a time. Default 10. */
  readonly poolSize?: number;
  /** For all that a record, or a lookup, waits for: its turn, a connection, locks, statements. Default 5,000 ms. */
  readonly timeoutMs?: number;
}

const defaultPoolSize = 10;
const defaultTimeoutMs = 5_000;

/** Writes of many tenants at a time: while one commits, the next is made. */
const sharedWrites = 1;

/** A write of more records takes longer than a call of another tenant should wait. */
const maxTogetherShared = 64;

/** How many writes there are at a time. They leave two connections to those who read. */
function concurrencyOf(poolSize: number, isDistributed: boolean): Partial<AppenderLimits> {
  const writes = Math.max(1, poolSize - 2);
  // On a cluster a write is one tenant's: one that waits for its head's lock keeps nobody else's waiting.
  if (isDistributed) return { maxTenantsPerWrite: 1, maxWritesInFlight: writes, slowWriteMs: slowAfterMs };
  const maxWritesInFlight = Math.min(sharedWrites, Math.max(1, writes >> 1));
  // One is left for those who wait together for a moment.
  const maxWritesApart = Math.max(1, writes - maxWritesInFlight - 1);
  return { maxWritesInFlight, maxWritesApart, maxTogetherShared, slowWriteMs: slowAfterMs };
}

/** The stores, with the ledger as suites and benchmarks look at it too. */
export interface PostgresStores extends ServiceStores {
  readonly ledger: StoredLedger;
}

/**
 * Opens the stores. Rejects with `IncompatibleStoreError` where the schema is not this program's, the database is not
 * durable, a log is not what the anchor says or the key is not the store's own; with an error of the driver or the file
 * system where it cannot be opened.
 */
export async function openPostgresStores(options: PostgresLedgerOptions): Promise<PostgresStores> {
  const { target, passwordFile, originPrefix, clock, random, logger } = options;
  const { poolSize = defaultPoolSize, timeoutMs = defaultTimeoutMs, timers = systemTimers } = options;
  requireOriginPrefix(originPrefix);
  const pool = new ConnectionPool({ target, passwordFile, poolSize, timeoutMs, clock, timers, logger });
  let anchor: SqliteAnchor | undefined;
  try {
    const anchorPath = options.anchorPath === undefined ? undefined : resolve(options.anchorPath);
    anchor = anchorPath === undefined ? undefined : openFileAnchor(anchorPath);
    const keyPath = resolve(options.keyPath);
    const signer = new KeyRing(await prepareStore({ pool, anchor, anchorPath, keyPath, clock, random }), {
      keyPath,
      logger,
    });
    const keys = new SigningKeysOfStore(signer);
    await keys.follow(pool);
    const writer = new LogWriter({ pool, anchor, originPrefix, clock, random, keys });
    await handOverLogs(pool, writer, keys.position);
    for (const line of describeUndone(await findUndone(pool))) logger?.warn({}, `${line}; ${undoneRemedy}`);
    const distributed = await isDistributed(pool);
    const store = new PostgresStore({ pool, writer, anchor, clock, keys, isDistributed: distributed });
    const concurrency = concurrencyOf(poolSize, distributed);
    const limits = { ...defaultAppenderLimits, ...concurrency, maxWaitMs: timeoutMs, ...options.limits };
    const shared = await options.openAnchor?.(store, signer);
    return {
      ledger: new StoredLedger(store, signer, limits, shared, options.commits),
      shared: store,
      stuck: () => store.stuck,
    };
  } catch (error) {
    await pool.close();
    anchor?.close();
    throw error;
  }
}
