/** A whole store, row by row, for commands that look at it beside a running service. Cannot write to it. */
import { existsSync } from "node:fs";
import { Client } from "pg";
import type { Clock } from "../../base/clock.ts";
import type { RecordId, TenantId } from "../../base/ids.ts";
import { systemTimers } from "../../base/timers.ts";
import { type LogAnchor, type SignableState, signableOf } from "../../ledger/ports/anchor.ts";
import type {
  AnchorFinding,
  AuditedLog,
  Companions,
  OrphanRow,
  StoreArchive,
  StoredEntry,
} from "../../ledger/ports/archive.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { ErasurePreview, LegalHold, UndoneErasure } from "../../ledger/ports/records-administration.ts";
import type { SearchPage, SearchQuery } from "../../ledger/ports/search.ts";
import type { LogState, StoredCosignature } from "../../ledger/ports/store.ts";
import type { TileName } from "../../ledger/tlog/tiles.ts";
import { orphanRow, orphanRowQueries } from "../store-checks.ts";
import { type ConnectionSettings, clientOptions, prepareConnection } from "./connection/client-options.ts";
import { type Queries, queriesOf, type Statement } from "./connection/connection.ts";
import { toError } from "./connection/errors.ts";
import { beginSnapshot, ConnectionPool } from "./connection/pool.ts";
import { previewErasure } from "./erasure/eraser.ts";
import { allHolds } from "./erasure/legal-holds.ts";
import { findUndone } from "./erasure/undone-erasures.ts";
import { findAnchorProblems, readFileAnchor } from "./log/anchor.ts";
import { companionsOf } from "./log/companions.ts";
import { readCosignatures } from "./log/cosignatures.ts";
import { LogReader } from "./log/log-reader.ts";
import { headOfTenant, readTiles } from "./log/log-rows.ts";
import { touch, visibleOpening } from "./log/log-statements.ts";
import { requireSchema } from "./schema/migrate.ts";
import { searchRecords } from "./search/search.ts";

const entriesFrom: Statement = {
  name: "entries_from",
  text: `SELECT entries.leaf_index, record_id, leaf, sealed, ${visibleOpening}
          WHERE tenant_id = $1 AND entries.leaf_index >= $2 AND entries.leaf_index < $3
          ORDER BY entries.leaf_index LIMIT $4`,
};
const policyRevisions: Statement = {
  name: "policy_revisions",
  text: "SELECT revision FROM policy_revisions ORDER BY revision",
};
const signingKeys: Statement = {
  name: "signing_keys",
  text: "SELECT public_key FROM signing_keys WHERE $1::integer IS NULL OR position <= $1::integer ORDER BY position",
};
const clock: Statement = {
  name: "clock",
  text: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms",
};
const orphanRows = orphanRowQueries("").map(([table, text]) => [table, { name: `stray_${table}`, text }] as const);

/** Entries that are in memory at a time, each a few KiB, 1 MiB at most. */
const entriesEach = 256;
/** Bound of the looks at the store as it is now. */
const timeoutMs = 10_000;

export interface PostgresArchiveOptions extends ConnectionSettings {
  /** Path of the anchor; undefined where there is none. */
  readonly anchorPath: string | undefined;
  readonly clock: Clock;
}

export class PostgresArchive implements StoreArchive {
  readonly #client: Client;
  readonly #queries: Queries;
  readonly #reader: LogReader;
  readonly #options: PostgresArchiveOptions;

  private constructor(client: Client, options: PostgresArchiveOptions) {
    this.#client = client;
    this.#queries = queriesOf(client);
    this.#reader = new LogReader(this.#queries);
    this.#options = options;
  }

  /**
   * Opens a snapshot of the store. Rejects with `IncompatibleStoreError` where its schema is not this program's, with an
   * error of the driver where it cannot be read.
   */
  static async open(options: PostgresArchiveOptions): Promise<PostgresArchive> {
    // Without bounds: a walk over all logs takes its time.
    const client = new Client(clientOptions(options, 0));
    // Whoever asks next is told.
    client.on("error", () => {});
    try {
      await client.connect();
      await prepareConnection(client);
      const archive = new PostgresArchive(client, options);
      await requireSchema(archive.#queries);
      await client.query(beginSnapshot);
      // The snapshot is of the first statement, not of the BEGIN.
      await client.query("SELECT");
      return archive;
    } catch (error) {
      await client.end();
      throw error;
    }
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return translated(() => this.#reader.find(tenantId, recordId));
  }

  policyRevision(revision: string): Promise<string | undefined> {
    return translated(() => this.#reader.policyRevision(revision));
  }

  clockMs(): Promise<number> {
    return translated(async () => (await this.#queries.query(clock, [])).rows[0]?.now_ms as number);
  }

  logs(): Promise<readonly LogState[]> {
    return translated(() => this.#reader.logs());
  }

  search(query: SearchQuery): Promise<SearchPage> {
    return translated(() => searchRecords(this.#queries, query));
  }

  log(head: LogState): AuditedLog {
    return {
      head,
      entries: () => this.entries(head, 0, Number.MAX_SAFE_INTEGER),
      tile: (level, index) =>
        translated(async () => (await readTiles(this.#queries, head.tenantId, [{ level, index }]))(level, index)),
    };
  }

  async *entries({ tenantId }: LogState, first: number, end: number): AsyncGenerator<StoredEntry> {
    for (let next = first; next < end; ) {
      const values = [tenantId, next, end, entriesEach];
      const { rows } = await translated(() => this.#queries.query(entriesFrom, values));
      if (rows.length === 0) return;
      for (const row of rows) {
        const leafIndex = row.leaf_index as number;
        next = leafIndex + 1;
        yield {
          leafIndex,
          recordId: row.record_id as RecordId,
          leaf: row.leaf as Uint8Array,
          sealed: row.sealed as Uint8Array,
          opening: (row.opening as Uint8Array | null) ?? undefined,
        };
      }
    }
  }

  tile(head: LogState, tile: TileName): Promise<Uint8Array | undefined> {
    return translated(() => this.#reader.tile(head, tile));
  }

  companions({ tenantId }: LogState): Promise<Companions> {
    return translated(() => companionsOf(this.#queries, tenantId));
  }

  policyRevisions(): Promise<readonly string[]> {
    return translated(async () =>
      (await this.#queries.query(policyRevisions, [])).rows.map(({ revision }) => revision as string),
    );
  }

  cosignatures(): Promise<readonly StoredCosignature[]> {
    return translated(() => readCosignatures(this.#queries));
  }

  signingKeys(head?: LogState): Promise<readonly Uint8Array[]> {
    return translated(async () => {
      const stored = head && (await headOfTenant(this.#queries, head.tenantId));
      const { rows } = await this.#queries.query(signingKeys, [stored?.keyPosition ?? null]);
      return rows.map(({ public_key }) => public_key as Uint8Array);
    });
  }

  orphanRows(): Promise<readonly OrphanRow[]> {
    return translated(async () => {
      const found: OrphanRow[] = [];
      for (const [table, statement] of orphanRows)
        found.push(...(await this.#queries.query(statement, [])).rows.map((row) => orphanRow(table, row)));
      return found;
    });
  }

  anchorProblems(): Promise<readonly AnchorFinding[]> {
    return translated(() => this.#withNow((pool) => this.#problems(pool)));
  }

  /** Commits an update of the head to what it is: behind that, a standby has what this snapshot saw. */
  signable(head: LogState): Promise<SignableState> {
    return translated(() =>
      this.#withNow(async (pool) => {
        await pool.transaction((connection) => touch(connection, head.tenantId));
        const problems = await this.#problems(pool);
        const own = problems.find(({ tenantId }) => tenantId === undefined || tenantId === head.tenantId);
        if (own !== undefined) return { problem: own.message };
        const anchored = await this.#withAnchor(async (anchor) =>
          (await anchor.storeId()) === undefined ? "unanchored" : ((await anchor.find(head.tenantId)) ?? "unknown"),
        );
        return signableOf(head, anchored ?? "unanchored");
      }),
    );
  }

  undoneErasures(): Promise<readonly UndoneErasure[]> {
    return translated(() => this.#withNow(findUndone));
  }

  holds(tenantId: TenantId | undefined): Promise<readonly LegalHold[]> {
    return translated(() => allHolds(this.#queries, tenantId));
  }

  previewErasure(tenantId: TenantId, recordIds: readonly RecordId[]): Promise<ErasurePreview> {
    return translated(() => previewErasure(this.#queries, tenantId, recordIds));
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  async #problems(queries: Queries): Promise<readonly AnchorFinding[]> {
    const { anchorPath } = this.#options;
    if (anchorPath === undefined) return [];
    if (!existsSync(anchorPath)) return [{ tenantId: undefined, message: `${anchorPath} is missing` }];
    return (await this.#withAnchor((anchor) => findAnchorProblems(queries, anchor))) ?? [];
  }

  async #withAnchor<Result>(use: (anchor: LogAnchor) => Promise<Result>): Promise<Result | undefined> {
    if (this.#options.anchorPath === undefined) return undefined;
    const anchor = readFileAnchor(this.#options.anchorPath);
    try {
      return await use(anchor);
    } finally {
      await anchor.close();
    }
  }

  /** Looks at the store as it is now, rather than as it was when it was opened. */
  async #withNow<Result>(look: (pool: ConnectionPool) => Promise<Result>): Promise<Result> {
    const pool = new ConnectionPool({ ...this.#options, poolSize: 1, timeoutMs, timers: systemTimers });
    try {
      return await look(pool);
    } finally {
      await pool.close();
    }
  }
}

async function translated<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw toError(error);
  }
}
