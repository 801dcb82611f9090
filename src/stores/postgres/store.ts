/** The store of many replicas: PostgreSQL, over a few connections. */
import type { ProofUse } from "../../auth/replay-store.ts";
import type { Clock } from "../../base/clock.ts";
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { AttemptLimit, Portion, ReachedLimit } from "../../domain/ports.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { ArtifactRegistrations } from "../../ledger/ports/registrations.ts";
import type { SearchPage, SearchQuery } from "../../ledger/ports/search.ts";
import type {
  BatchOutcome,
  CommittedRecord,
  LedgerStore,
  LogState,
  StoredCosignature,
  StoredTree,
  TenantBatch,
} from "../../ledger/ports/store.ts";
import type { LogName } from "../../ledger/tlog/log-name.ts";
import type { TileName } from "../../ledger/tlog/tiles.ts";
import type { Hash } from "../../ledger/tlog/tree.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import { upToDate } from "../sql/found-registrations.ts";
import { keepingCosignature, keepingRevision } from "../sql/log-rows.ts";
import type { Statement } from "../sql/queries.ts";
import { StoreReader } from "../sql/reader.ts";
import type { SigningKeysOfStore } from "../sql/signing-keys.ts";
import { isLockTimeout, toError } from "./connection/errors.ts";
import type { ConnectionPool } from "./connection/pool.ts";
import type { LogWriter } from "./log-writer.ts";
import { SharedCounters } from "./shared.ts";

/** Lock timeout of the probe, whose row no call needs, in milliseconds. */
const probeLockMs = 100;
const emptyCommit: Statement = {
  name: "empty_commit",
  text: `SELECT pg_logical_emit_message(true, 'svc-platform-api', ''),
                current_setting('transaction_read_only') AS is_read_only`,
};
const probe: Statement = { name: "probe", text: "UPDATE store SET probed_at_ms = $1 WHERE singleton = 1" };

export interface PostgresStoreOptions {
  readonly pool: ConnectionPool;
  readonly writer: LogWriter;
  readonly anchor: SqliteAnchor | undefined;
  readonly clock: Clock;
  /** The keys that sign the store's trees. */
  readonly keys: SigningKeysOfStore;
}

export class PostgresStore implements LedgerStore {
  readonly #pool: ConnectionPool;
  readonly #writer: LogWriter;
  readonly #reader: StoreReader;
  readonly #anchor: SqliteAnchor | undefined;
  readonly #clock: Clock;
  readonly #counters: SharedCounters;
  readonly #keys: SigningKeysOfStore;

  constructor({ pool, writer, anchor, clock, keys }: PostgresStoreOptions) {
    this.#pool = pool;
    this.#keys = keys;
    this.#writer = writer;
    this.#reader = new StoreReader(pool);
    this.#anchor = anchor;
    this.#clock = clock;
    this.#counters = new SharedCounters(pool, () => clock.now());
  }

  write(batches: readonly TenantBatch[]): Promise<readonly BatchOutcome[]> {
    return this.#writer.write(batches);
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return this.#translated(() => this.#reader.find(tenantId, recordId));
  }

  proven(name: LogName, tree: StoredTree, recordId: RecordId): Promise<CommittedRecord | "unknown" | "erased"> {
    return this.#translated(() => this.#reader.proven(name, tree, recordId));
  }

  registrations(tenantId: TenantId, names: readonly string[]): Promise<readonly ArtifactRegistrations[]> {
    return this.#translated(() =>
      upToDate(
        () => this.#reader.lookAtRegistrations(tenantId, names),
        async () => {
          await this.#writer.indexRegistrations(tenantId);
        },
      ),
    );
  }

  search(query: SearchQuery): Promise<SearchPage> {
    return this.#translated(() => this.#reader.search(query));
  }

  logs(): Promise<readonly LogState[]> {
    return this.#translated(() => this.#reader.logs());
  }

  log(name: LogName): Promise<LogState | undefined> {
    return this.#translated(() => this.#reader.log(name));
  }

  head(name: LogName): Promise<LogState | undefined> {
    return this.#translated(() => this.#writer.head(name));
  }

  tile(name: LogName, tile: TileName): Promise<Uint8Array | undefined> {
    return this.#translated(() => this.#reader.tile(name, tile));
  }

  consistencyProof(name: LogName, first: number, second: number): Promise<readonly Hash[] | undefined> {
    return this.#translated(() => this.#reader.consistencyProof(name, first, second));
  }

  policyRevision(revision: string): Promise<string | undefined> {
    return this.#translated(() => this.#reader.policyRevision(revision));
  }

  multiProof(name: LogName, size: number, leafIndices: readonly number[]): Promise<readonly Hash[] | undefined> {
    return this.#translated(() => this.#reader.multiProof(name, size, leafIndices));
  }

  cosignatures(): Promise<readonly StoredCosignature[]> {
    return this.#translated(() => this.#reader.cosignatures());
  }

  storeCosignatures(cosignatures: readonly StoredCosignature[]): Promise<void> {
    // One by one: each is durable by itself, and no two tenants share a transaction.
    return this.#translated(async () => {
      for (const cosignature of cosignatures)
        await this.#pool.retrying(() => this.#pool.write(...keepingCosignature(cosignature)));
    });
  }

  async keepPolicyRevision(revision: string, content: string | Uint8Array): Promise<void> {
    await this.#translated(() =>
      // The server reads UTF-8 bytes as text; converting megabytes to a string would block the event loop.
      this.#pool.retrying(() => this.#pool.write(...keepingRevision(revision, content))),
    );
  }

  /**
   * Notes the use of a proof: exactly one call with the same proof gets true, on all replicas together, across
   * restarts. Rejects with `store_unavailable` if that cannot be known.
   * @param expiresAtMs milliseconds since the Unix epoch after which the use may be forgotten
   */
  firstUse(use: ProofUse, expiresAtMs: number): Promise<boolean> {
    return this.#translated(() => this.#counters.firstUse(use, expiresAtMs));
  }

  /**
   * Counts one attempt under each of the limits, for all replicas together, or under none if some are reached; resolves
   * with those. Rejects with `store_unavailable`.
   */
  takeAttempt(limits: readonly AttemptLimit[]): Promise<readonly ReachedLimit[]> {
    return this.#translated(() => this.#counters.take(limits));
  }

  /** Returns one attempt under each limit whose window has not ended. */
  giveBackAttempt(limits: readonly AttemptLimit[]): Promise<void> {
    return this.#translated(() => this.#counters.giveBack(limits));
  }

  /** Grants up to `wanted` of what the limit leaves to all replicas. Rejects with `store_unavailable`. */
  takePortion(limit: AttemptLimit, wanted: number): Promise<Portion> {
    return this.#translated(() => this.#counters.takePortion(limit, wanted));
  }

  giveBackPortion(limit: AttemptLimit, unused: number): Promise<void> {
    return this.#translated(() => this.#counters.giveBackPortion(limit, unused));
  }

  async check(): Promise<void> {
    await this.#translated(async () => {
      await this.#pool.retrying(() => this.#probe());
      this.#anchor?.probe(this.#clock.now());
    });
  }

  /**
   * Commits a write that takes the same way to disk and standbys as records. No call needs the row. If another session
   * has locked it or its table, only the commit is made.
   */
  async #probe(): Promise<void> {
    const nowMs = this.#clock.now();
    try {
      await this.#pool.transaction(async (connection) => {
        const { count } = await connection.query(probe, [nowMs]);
        if (count !== 1) throw new Error("The store has lost its identity.");
        await this.#keys.follow(connection);
      }, probeLockMs);
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      const { rows } = await this.#pool.transaction((connection) => connection.query(emptyCommit, []));
      if (rows[0]?.is_read_only !== "off") throw new Error("The database takes no writes.");
    }
  }

  /** Tenants, and other keys, whose work is stuck; the longest first. */
  get stuck(): readonly string[] {
    return this.#pool.stuck;
  }

  async close(): Promise<void> {
    await this.#pool.close();
    this.#anchor?.close();
  }

  /** Runs work under one time limit, with the errors of the store's port. */
  async #translated<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await this.#pool.together(work);
    } catch (error) {
      throw toError(error);
    }
  }
}
