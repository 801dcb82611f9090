/** Opens the ledger of a deployment on PostgreSQL: the store of many replicas, over a few connections. */
import { resolve } from "node:path";
import type { ReplayStore } from "../../auth/replay-store.ts";
import type { Clock } from "../../base/clock.ts";
import { outsideConnections } from "../../base/timers.ts";
import type { PortionCounters } from "../../domain/ports.ts";
import { ledgerOver } from "../../ledger/append/ledger.ts";
import { type AppenderLimits, defaultAppenderLimits } from "../../ledger/append/limits.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import type { StoredCosignature } from "../../ledger/ports/store.ts";
import { requireOriginPrefix } from "../../ledger/tlog/log-name.ts";
import { openAnchor, type SqliteAnchor } from "../files/anchor.ts";
import type { SigningKeys } from "../files/key-file.ts";
import type { ServiceMachine, ServiceStores } from "../sql/backend.ts";
import { findUndone } from "../sql/erasure.ts";
import { KeyRing, SigningKeysOfStore } from "../sql/key-ring.ts";
import { heads, keepingCosignature, keepRevision } from "../sql/log-rows.ts";
import { type Transaction, throughAll, translated } from "../sql/queries.ts";
import { storeReader } from "../sql/reader.ts";
import { givingBack, keyTenant, noteProofs, ProofBatches, type ProofRow, takePortion } from "../sql/shared.ts";
import { admitKeys, checkAnchor, checkLogs, readCopyState, requireServable } from "../sql/store-checks.ts";
import { slowAfterMs } from "./connection/bulkhead.ts";
import type { ConnectionSettings } from "./connection/client-options.ts";
import { isLockTimeout, toError } from "./connection/errors.ts";
import { ConnectionPool } from "./connection/pool.ts";
import { LogWriter } from "./log-writer.ts";
import { isDistributed, requireDurableNodes, requireSchema } from "./schema.ts";

/** Options of the ledger. The database must have this program's schema; the key is made if the store is empty. */
export interface PostgresLedgerOptions extends ConnectionSettings, ServiceMachine {
  /** Path of the file of the keys that sign checkpoints, the same one on every replica. */
  readonly keyPath: string;
  /** Path of the anchor, for the replicas of one machine; without one, a restored older store goes undetected. */
  readonly anchorPath?: string | undefined;
  /** Prefix of a log's origin, before its random part, such as `ledger.example.org/logs`. */
  readonly originPrefix: string;
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
  const { poolSize = defaultPoolSize, timeoutMs = defaultTimeoutMs } = options;
  requireOriginPrefix(originPrefix);
  const keyPath = resolve(options.keyPath);
  const pool = new ConnectionPool({ target, passwordFile, poolSize, timeoutMs, logger });
  let anchor: SqliteAnchor | undefined;
  try {
    if (options.anchorPath !== undefined) anchor = openAnchor(resolve(options.anchorPath), anchorBusyTimeoutMs);
    const admitted = await prepareStore(pool, { ...options, keyPath }, anchor);
    const signer = new KeyRing(admitted, keyPath, logger);
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
    const calls = {
      ...storeReader(pool),
      ...countersIn(pool, clock),
      head: writer.head.bind(writer),
      async storeCosignatures(cosignatures: readonly StoredCosignature[]) {
        // One by one: each is durable by itself, and no two tenants share a transaction.
        for (const one of cosignatures) await pool.retrying(() => pool.write(...keepingCosignature(one)));
      },
      async keepPolicyRevision(revision: string, content: string | Uint8Array) {
        // The server reads UTF-8 bytes as text; converting megabytes to a string would block the event loop.
        await pool.retrying(() => pool.write(keepRevision, [revision, content]));
      },
      async check() {
        await pool.retrying(() => makeProbe(pool, keys, clock.now()));
        anchor?.probe(clock.now());
      },
    };
    const store = {
      // Each call has one time limit, and the errors of the store's port.
      ...throughAll(calls, (work) => translated({ toError }, () => pool.together(work))),
      write: writer.write.bind(writer),
      async close() {
        await pool.close();
        anchor?.close();
      },
    };
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
  { clock, random, originPrefix, keyPath }: PostgresLedgerOptions,
  anchor: SqliteAnchor | undefined,
): Promise<SigningKeys> {
  await requireSchema(pool);
  requireServable(await readCopyState(pool), "The database");
  if (await isDistributed(pool)) await requireDurableNodes(pool);
  const confirm = () => pool.transaction((connection) => connection.query(keysLock, []));
  if (anchor !== undefined) await checkAnchor(pool, anchor, confirm);
  await checkLogs(pool, originPrefix, clock.now());
  return pool.transaction(async (connection) => {
    await connection.query(keysLock, []);
    // Again, under the lock: a copy that began meanwhile held it.
    requireServable(await readCopyState(connection), "The database");
    return admitKeys(connection, { anchor, keyPath, random });
  });
}

/** Lock timeout of the probe, whose row no call needs, in milliseconds. */
const probeLockMs = 100;
const emptyCommit = `SELECT pg_logical_emit_message(true, 'svc-platform-api', ''),
         current_setting('transaction_read_only') AS is_read_only`;
const probe = "UPDATE store SET probed_at_ms = $1 WHERE singleton = 1";

/**
 * Commits a write that takes the same way to disk and standbys as records. No call needs the row. If another session
 * has locked it or its table, only the commit is made.
 */
async function makeProbe(pool: ConnectionPool, keys: SigningKeysOfStore, nowMs: number): Promise<void> {
  try {
    await pool.transaction(async (connection) => {
      const { count } = await connection.query(probe, [nowMs]);
      if (count !== 1) throw new Error("The store has lost its identity.");
      await keys.follow(connection);
    }, probeLockMs);
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    const { rows } = await pool.transaction((connection) => connection.query(emptyCommit, []));
    if (rows[0]?.is_read_only !== "off") throw new Error("The database takes no writes.");
  }
}

/** Short-lived state that replicas share. Each tenant's counters, and its proofs, have their own transactions. */
function countersIn(pool: ConnectionPool, clock: Clock): ReplayStore & PortionCounters {
  const transact = <Result>(work: (transaction: Transaction) => Promise<Result>, key: string) =>
    pool.retrying(() => pool.transaction(work), key);
  const write = (rows: readonly ProofRow[]) => {
    const [{ tenantId }] = rows as readonly [ProofRow, ...ProofRow[]];
    const note = (transaction: Transaction) => noteProofs(transaction, tenantId, rows, clock.now());
    // A batch's waits are not bounded by its first caller's time limit.
    return outsideConnections(() => transact(note, tenantId));
  };
  const proofs = new ProofBatches(write, ({ tenantId }) => tenantId);
  return {
    /** Rejects with an error of the driver, `UnknownOutcomeError` or `store_unavailable` if the answer is unknown. */
    firstUse: (use, expiresAtMs) => pool.inTime(proofs.firstUse(use, expiresAtMs)),
    /** A portion of unknown outcome is requested again, and may be lost. */
    takePortion: (limit, wanted) =>
      transact((transaction) => takePortion(transaction, limit, wanted, clock.now()), keyTenant(limit) || "addresses"),
    async giveBackPortion(...unused) {
      await pool.write(...givingBack(...unused));
    },
  };
}
