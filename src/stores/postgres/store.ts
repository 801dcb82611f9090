/** The store of many replicas: PostgreSQL, over a few connections. */
import type { ReplayStore } from "../../auth/replay-store.ts";
import type { Clock } from "../../base/clock.ts";
import { outsideConnections } from "../../base/timers.ts";
import type { PortionCounters } from "../../domain/ports.ts";
import type { LedgerStore, StoredCosignature } from "../../ledger/ports/store.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import type { SigningKeysOfStore } from "../sql/key-ring.ts";
import { keepingCosignature, keepRevision } from "../sql/log-rows.ts";
import { type Transaction, throughAll, translated } from "../sql/queries.ts";
import { storeReader } from "../sql/reader.ts";
import { givingBack, keyTenant, noteProofs, ProofBatches, type ProofRow, takePortion } from "../sql/shared.ts";
import { isLockTimeout, toError } from "./connection/errors.ts";
import type { ConnectionPool } from "./connection/pool.ts";
import type { LogWriter } from "./log-writer.ts";

/** Lock timeout of the probe, whose row no call needs, in milliseconds. */
const probeLockMs = 100;
const emptyCommit = `SELECT pg_logical_emit_message(true, 'svc-platform-api', ''),
         current_setting('transaction_read_only') AS is_read_only`;
const probe = "UPDATE store SET probed_at_ms = $1 WHERE singleton = 1";

/** A store that all replicas on the database share. The keys sign its trees. */
export function postgresStore(
  pool: ConnectionPool,
  writer: LogWriter,
  { anchor, clock, keys }: { anchor: SqliteAnchor | undefined; clock: Clock; keys: SigningKeysOfStore },
): LedgerStore & ReplayStore & PortionCounters {
  /** Each call has one time limit, and the errors of the store's port. */
  const bounded = (work: () => Promise<unknown>) => translated({ toError }, () => pool.together(work));
  const calls = {
    ...storeReader(pool),
    ...countersIn(pool, clock),
    head: writer.head.bind(writer),
    async storeCosignatures(cosignatures: readonly StoredCosignature[]) {
      // One by one: each is durable by itself, and no two tenants share a transaction.
      for (const cosignature of cosignatures) await pool.retrying(() => pool.write(...keepingCosignature(cosignature)));
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
  return {
    ...throughAll(calls, bounded),
    write: (batches) => writer.write(batches),
    async close() {
      await pool.close();
      anchor?.close();
    },
  };
}

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
