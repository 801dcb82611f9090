/** A whole store, row by row, for commands that look at it beside a running service. Cannot write to it. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import { type SignableState, signableOf } from "../../ledger/ports/anchor.ts";
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
import { logNameOf } from "../../ledger/tlog/log-name.ts";
import type { TileName } from "../../ledger/tlog/tiles.ts";
import { orphanRow, orphanRowQueries } from "../store-checks.ts";
import { openConnection, readStoreId, type SqliteConnection, type SqliteStatement } from "./connection.ts";
import { ErasableRecords } from "./erasure/erasable.ts";
import { LegalHolds } from "./erasure/legal-holds.ts";
import { hideErased, readNotedErasures } from "./erasure/noted-erasures.ts";
import { UndoneErasures } from "./erasure/undone-erasures.ts";
import { toReported } from "./errors.ts";
import { readAnchored, readAnchorProblems } from "./log/anchor-problems.ts";
import { companionsOf } from "./log/companions.ts";
import { readCosignatures } from "./log/cosignatures.ts";
import { LogRows } from "./log/log-rows.ts";
import { SqliteReader } from "./reader.ts";
import { requireSchema } from "./schema/migrate.ts";

const busyTimeoutMs = 10_000;

/** What is asked of the file with the anchor beside it. */
export interface SqliteArchivePaths {
  readonly path: string;
  readonly anchorPath: string;
}

export class SqliteArchive implements StoreArchive {
  readonly #paths: SqliteArchivePaths;
  readonly #connection: SqliteConnection;
  readonly #rows: LogRows;
  readonly #reader: SqliteReader;
  readonly #entries: SqliteStatement;

  /**
   * Opens the file, which must exist. Throws `IncompatibleStoreError` if it does not have this program's schema, an SQLite
   * error if it cannot be read.
   */
  constructor(paths: SqliteArchivePaths) {
    this.#paths = paths;
    this.#connection = openConnection({ path: paths.path, readOnly: true, busyTimeoutMs });
    try {
      requireSchema(this.#connection, paths.path);
      hideErased(this.#connection, readNotedErasures(this.#connection, paths.anchorPath));
      this.#rows = new LogRows(this.#connection);
      this.#reader = new SqliteReader(this.#connection);
      this.#entries = this.#connection.prepare(
        `SELECT leaf_index, record_id, leaf, sealed, opening
           FROM entries LEFT JOIN openings USING (tenant_id, record_id)
          WHERE tenant_id = ? AND leaf_index >= ? AND leaf_index < ? ORDER BY leaf_index`,
      );
      // One state for all that is asked, from the first question on: what prepares them asks already.
      this.#connection.exec("BEGIN");
    } catch (error) {
      this.#connection.close();
      throw error;
    }
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return attempt(() => this.#reader.find(tenantId, recordId));
  }

  policyRevision(revision: string): Promise<string | undefined> {
    return attempt(() => this.#reader.policyRevision(revision));
  }

  search(query: SearchQuery): Promise<SearchPage> {
    return attempt(() => this.#reader.records.search(query));
  }

  logs(): Promise<readonly LogState[]> {
    return attempt(() => this.#reader.logs.logs());
  }

  log(head: LogState): AuditedLog {
    return {
      head,
      entries: () => this.#walk(head),
      tile: (level, index) => attempt(() => this.#rows.tile(head.tenantId, level, index)),
    };
  }

  async *entries({ tenantId }: LogState, first: number, end: number): AsyncGenerator<StoredEntry> {
    for (const row of this.#entries.iterate(tenantId, first, end)) yield entryOf(row);
  }

  /** As the store has it: what only the anchor notes as erased is not missing from the log. */
  async *#walk({ tenantId }: LogState): AsyncGenerator<StoredEntry> {
    const isErased = `EXISTS (SELECT 1 FROM erasures
                               WHERE erasures.tenant_id = entries.tenant_id AND erasures.record_id = entries.record_id)`;
    const entries = this.#connection.prepare(
      `SELECT leaf_index, record_id, leaf, sealed, CASE WHEN ${isErased} THEN NULL ELSE opening END AS opening
         FROM entries LEFT JOIN main.openings USING (tenant_id, record_id)
        WHERE tenant_id = ? ORDER BY leaf_index`,
    );
    for (const row of entries.iterate(tenantId)) yield entryOf(row);
  }

  tile(head: LogState, tile: TileName): Promise<Uint8Array | undefined> {
    return attempt(() => this.#reader.logs.tile(logNameOf(head.origin), tile));
  }

  companions({ tenantId }: LogState): Promise<Companions> {
    return attempt(() => companionsOf(this.#connection, tenantId));
  }

  policyRevisions(): Promise<readonly string[]> {
    return attempt(() => {
      const rows = this.#connection.prepare("SELECT revision FROM policy_revisions ORDER BY revision").iterate();
      return [...rows].map(({ revision }) => revision as string);
    });
  }

  cosignatures(): Promise<readonly StoredCosignature[]> {
    return attempt(() => readCosignatures(this.#connection));
  }

  signingKeys(): Promise<readonly Uint8Array[]> {
    return attempt(() => {
      const rows = this.#connection.prepare("SELECT public_key FROM signing_keys ORDER BY position").iterate();
      return [...rows].map(({ public_key }) => public_key as Uint8Array);
    });
  }

  orphanRows(): Promise<readonly OrphanRow[]> {
    return attempt(() => {
      return orphanRowQueries("main.").flatMap(([table, sql]) =>
        [...this.#connection.prepare(sql).iterate()].map((row) => orphanRow(table, row)),
      );
    });
  }

  anchorProblems(): Promise<readonly AnchorFinding[]> {
    return attempt(() => readAnchorProblems(this.#paths.anchorPath, this));
  }

  async signable(head: LogState): Promise<SignableState> {
    const problems = await this.anchorProblems();
    const own = problems.find(({ tenantId }) => tenantId === undefined || tenantId === head.tenantId);
    if (own !== undefined) return { problem: own.message };
    const { anchorPath } = this.#paths;
    return attempt(() => signableOf(head, readAnchored(anchorPath, head.tenantId)));
  }

  async undoneErasures(): Promise<readonly UndoneErasure[]> {
    // First what is noted: an erasure is in the store before its anchor notes it.
    return attempt(() => {
      const noted = readNotedErasures(this.#connection, this.#paths.anchorPath);
      return this.#withNewest((connection) => new UndoneErasures(connection).all(noted));
    });
  }

  holds(tenantId: TenantId | undefined): Promise<readonly LegalHold[]> {
    return attempt(() => new LegalHolds(this.#connection).all(tenantId));
  }

  previewErasure(tenantId: TenantId, recordIds: readonly RecordId[]): Promise<ErasurePreview> {
    return attempt(() => new ErasableRecords(this.#connection).preview(tenantId, recordIds));
  }

  async clockMs(): Promise<undefined> {}

  storeId(): string {
    return readStoreId(this.#connection);
  }

  /** Whether the store had an anchor. */
  isAnchored(): boolean {
    return this.#connection.prepare("SELECT anchored FROM store").get()?.anchored === 1;
  }

  /** Looks at the store as it is now, rather than as it was when it was opened. */
  withNewest<Result>(look: (rows: LogRows) => Result): Result {
    return this.#withNewest((connection) => look(new LogRows(connection)));
  }

  #withNewest<Result>(look: (connection: SqliteConnection) => Result): Result {
    const connection = openConnection({ path: this.#paths.path, readOnly: true, busyTimeoutMs });
    try {
      return look(connection);
    } finally {
      connection.close();
    }
  }

  async close(): Promise<void> {
    this.#reader.close();
  }
}

function entryOf(row: Record<string, unknown>): StoredEntry {
  return {
    leafIndex: row.leaf_index as number,
    recordId: row.record_id as RecordId,
    leaf: row.leaf as Uint8Array,
    sealed: row.sealed as Uint8Array,
    opening: (row.opening as Uint8Array | null) ?? undefined,
  };
}

async function attempt<Result>(read: () => Result): Promise<Result> {
  try {
    return read();
  } catch (error) {
    throw toReported(error);
  }
}
