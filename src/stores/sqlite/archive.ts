/** A whole store, row by row, for commands that look at it beside a running service. Cannot write to it. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { AnchorFinding, StoreArchive } from "../../ledger/archive.ts";
import type { AuditedLog, StoredEntry } from "../../ledger/audit.ts";
import type { KeptCosignature } from "../../ledger/cosignature-store.ts";
import { logNameOf } from "../../ledger/log-name.ts";
import type { StoredRecord } from "../../ledger/ports.ts";
import type { SearchPage, SearchQuery } from "../../ledger/search.ts";
import type { LogState } from "../../ledger/store.ts";
import type { TileName } from "../../ledger/tiles.ts";
import { advanceAnchor, readAnchorProblems } from "./anchor-problems.ts";
import { openConnection, type SqliteConnection, type SqliteStatement } from "./connection.ts";
import { readCosignatures } from "./cosignatures.ts";
import { describeFailure, toError } from "./errors.ts";
import { LogRows } from "./log-rows.ts";
import { SqliteReader } from "./reader.ts";
import { readStoreId } from "./store-identity.ts";

const busyTimeoutMs = 10_000;

/** What is asked of the file with the anchor beside it. */
export interface SqliteArchivePlace {
  readonly path: string;
  readonly anchorPath: string;
}

export class SqliteArchive implements StoreArchive {
  readonly #place: SqliteArchivePlace;
  readonly #connection: SqliteConnection;
  readonly #rows: LogRows;
  readonly #reader: SqliteReader;
  readonly #entries: SqliteStatement;

  /** Opens the file, which must exist. Throws an SQLite error where it cannot be read. */
  constructor(place: SqliteArchivePlace) {
    this.#place = place;
    this.#connection = openConnection({ path: place.path, readOnly: true, busyTimeoutMs });
    try {
      this.#connection.exec("BEGIN");
      this.#rows = new LogRows(this.#connection);
      this.#reader = new SqliteReader(this.#connection);
      this.#entries = this.#connection.prepare(
        `SELECT leaf_index, record_id, leaf, sealed, opening
           FROM entries LEFT JOIN openings USING (tenant_id, record_id)
          WHERE tenant_id = ? AND leaf_index >= ? AND leaf_index < ? ORDER BY leaf_index`,
      );
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
      entries: () => this.entries(head, 0, Number.MAX_SAFE_INTEGER),
      tile: (level, index) => attempt(() => this.#rows.tile(head.tenantId, level, index)),
    };
  }

  async *entries({ tenantId }: LogState, first: number, end: number): AsyncGenerator<StoredEntry> {
    for (const row of this.#entries.iterate(tenantId, first, end)) {
      yield {
        leafIndex: row.leaf_index as number,
        recordId: row.record_id as RecordId,
        leaf: row.leaf as Uint8Array,
        sealed: row.sealed as Uint8Array,
        opening: (row.opening as Uint8Array | null) ?? undefined,
      };
    }
  }

  tile(head: LogState, tile: TileName): Promise<Uint8Array | undefined> {
    return attempt(() => this.#reader.logs.tile(logNameOf(head.origin), tile));
  }

  cosignatures(): Promise<readonly KeptCosignature[]> {
    return attempt(() => readCosignatures(this.#connection));
  }

  signingKeys(): Promise<readonly Uint8Array[]> {
    return attempt(() => {
      const rows = this.#connection.prepare("SELECT public_key FROM signing_keys ORDER BY position").iterate();
      return [...rows].map(({ public_key }) => public_key as Uint8Array);
    });
  }

  anchorProblems(): Promise<readonly AnchorFinding[]> {
    return attempt(() => readAnchorProblems(this.#place.anchorPath, this));
  }

  async anchorForSigning(head: LogState): Promise<string | undefined> {
    const problems = await this.anchorProblems();
    const own = problems.find(({ tenantId }) => tenantId === undefined || tenantId === head.tenantId);
    if (own === undefined) await attempt(() => advanceAnchor(this.#place.anchorPath, head));
    return own?.message;
  }

  storeId(): string {
    return readStoreId(this.#connection);
  }

  /** Whether the store had an anchor. */
  isAnchored(): boolean {
    return this.#connection.prepare("SELECT anchored FROM store").get()?.anchored === 1;
  }

  /** Looks at the store as it is now, rather than as it was when it was opened. */
  withNewest<Result>(look: (rows: LogRows) => Result): Result {
    const connection = openConnection({ path: this.#place.path, readOnly: true, busyTimeoutMs });
    try {
      return look(new LogRows(connection));
    } finally {
      connection.close();
    }
  }

  async close(): Promise<void> {
    this.#reader.close();
  }
}

async function attempt<Result>(read: () => Result): Promise<Result> {
  try {
    return read();
  } catch (error) {
    throw toError(describeFailure(error));
  }
}
