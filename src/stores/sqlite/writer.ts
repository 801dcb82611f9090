/** All that writes to the database: in the writer's thread, one transaction at a time. */
import type { TenantId } from "../../base/ids.ts";
import type { NewRecord } from "../../ledger/ports.ts";
import { type LogHead, type SealedEntry, sequence } from "../../ledger/sequence.ts";
import { type BatchPlace, type TenantBatch, UnstorableError } from "../../ledger/store.ts";
import type { SqliteConnection, SqliteStatement } from "./connection.ts";

/**
 * Size of what a probe writes. A disk too full for records often still has a page or two, so one page proves little;
 * random, because SQLite does not write what has not changed.
 */
const probeBytes = 64 * 1024;

/** A batch with the randomness that it needs, drawn where the caller owns it. */
export interface SeededBatch extends TenantBatch {
  /** `seedBytes(records.length)` fresh random bytes. */
  readonly seed: Uint8Array;
}

/** Prepared once a connection. */
interface Statements {
  readonly head: SqliteStatement;
  readonly openLog: SqliteStatement;
  readonly advanceHead: SqliteStatement;
  readonly entry: SqliteStatement;
  readonly opening: SqliteStatement;
  readonly policyRevision: SqliteStatement;
  readonly probe: SqliteStatement;
}

export class SqliteWriter {
  readonly #connection: SqliteConnection;
  readonly #statements: Statements;
  readonly #originPrefix: string;

  /** The connection becomes the writer's: it is closed with it. */
  constructor(connection: SqliteConnection, originPrefix: string) {
    this.#connection = connection;
    this.#originPrefix = originPrefix;
    this.#statements = {
      head: connection.prepare("SELECT origin, size, last_recorded_at_ms FROM log_heads WHERE tenant_id = ?"),
      openLog: connection.prepare(
        "INSERT INTO log_heads (origin, size, last_recorded_at_ms, tenant_id) VALUES (?, ?, ?, ?)",
      ),
      advanceHead: connection.prepare(
        "UPDATE log_heads SET size = ?, last_recorded_at_ms = ? WHERE tenant_id = ? AND size = ?",
      ),
      entry: connection.prepare(
        "INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed) VALUES (?, ?, ?, ?, ?)",
      ),
      opening: connection.prepare("INSERT INTO openings (tenant_id, record_id, opening) VALUES (?, ?, ?)"),
      policyRevision: connection.prepare(
        "INSERT INTO policy_revisions (revision, content) VALUES (?, ?) ON CONFLICT DO NOTHING",
      ),
      probe: connection.prepare(
        `UPDATE store SET probed_at_ms = ?, probe = randomblob(${probeBytes}) WHERE singleton = 1`,
      ),
    };
  }

  /**
   * Appends batches in one transaction. One file has one writer at a time, so tenants share it: the commit's sync is
   * what costs. Durable when it returns; when it throws, the outcome of the commit is unknown and nothing about the
   * heads is remembered.
   */
  append(batches: readonly SeededBatch[], nowMs: number): readonly BatchPlace[] {
    return this.#transaction(() => batches.map((batch) => this.#appendBatch(batch, nowMs)));
  }

  keepPolicyRevision(revision: string, content: string): void {
    this.#transaction(() => this.#statements.policyRevision.run(revision, content));
  }

  /** A real write, because a full disk still reads and locks. */
  probe(nowMs: number): void {
    this.#transaction(() => {
      if (Number(this.#statements.probe.run(nowMs).changes) !== 1) throw new Error("The store has lost its identity.");
    });
  }

  close(): void {
    this.#connection.close();
  }

  #appendBatch({ tenantId, records, seed }: SeededBatch, nowMs: number): BatchPlace {
    const head = this.#readHead(tenantId);
    const { head: next, entries, firstLeafIndex, recordedAt } = this.#sequence(head, records, nowMs, seed);
    for (const entry of entries) this.#insert(tenantId, entry);
    if (head === undefined) {
      this.#statements.openLog.run(next.origin, next.size, next.lastRecordedAtMs, tenantId);
    } else {
      const { changes } = this.#statements.advanceHead.run(next.size, next.lastRecordedAtMs, tenantId, head.size);
      if (Number(changes) !== 1) throw new Error("The head of the log was moved by another writer.");
    }
    return { log: next.origin, firstLeafIndex, recordedAt };
  }

  #sequence(head: LogHead | undefined, records: readonly string[], nowMs: number, seed: Uint8Array) {
    const [first, ...rest] = records.map((json) => JSON.parse(json) as NewRecord);
    if (first === undefined) throw new UnstorableError("The batch is empty.");
    try {
      return sequence(head, [first, ...rest], nowMs, seed, this.#originPrefix);
    } catch (cause) {
      throw new UnstorableError(cause instanceof Error ? cause.message : "The record cannot be built.", { cause });
    }
  }

  #readHead(tenantId: TenantId): LogHead | undefined {
    const row = this.#statements.head.get(tenantId);
    if (row === undefined) return undefined;
    return {
      origin: row.origin as string,
      size: row.size as number,
      lastRecordedAtMs: row.last_recorded_at_ms as number,
    };
  }

  #insert(tenantId: TenantId, { leafIndex, recordId, leaf, sealed, opening }: SealedEntry): void {
    this.#statements.entry.run(tenantId, leafIndex, recordId, leaf, sealed);
    this.#statements.opening.run(tenantId, recordId, opening);
  }

  /** IMMEDIATE takes the write lock before the first read, so that what was read cannot have changed at the commit. */
  #transaction<Result>(work: () => Result): Result {
    this.#connection.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.#connection.exec("COMMIT");
      return result;
    } catch (error) {
      // Some failures have rolled back by themselves.
      if (this.#connection.isTransaction) this.#connection.exec("ROLLBACK");
      throw error;
    }
  }
}
