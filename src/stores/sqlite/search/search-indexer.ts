/** Builds search indexes anew beside a running service: many short transactions, between which others write. */
import type { RandomFill, TenantId } from "../../../base/ids.ts";
import { artifactKeyBytes } from "../../../ledger/artifacts/registration-index.ts";
import type { RebuiltIndex, SearchIndexer } from "../../../ledger/ports/search.ts";
import { searchKeyBytes } from "../../../ledger/search/search-index.ts";
import { type IndexGeneration, SearchTerms, segmentsOf } from "../../search-backlog.ts";
import { inTransaction, openConnection, type SqliteConnection, type SqliteStatement } from "../connection.ts";
import { describeFailure, toError } from "../errors.ts";
import { LogRows } from "../log/log-rows.ts";
import { RegistrationIndex } from "../registrations/registration-index.ts";
import { RecordsToIndex } from "./search-index.ts";
import { SearchSegments } from "./search-segments.ts";

/** Leaves of one transaction, which holds the write lock for about 10 ms. */
const leavesEach = 64;
/** Leaves of which one transaction clears up. */
const sweptEach = 256;
const busyTimeoutMs = 10_000;

export interface SearchIndexerOptions {
  /** Path of the database file. It must exist and have this program's schema. */
  readonly path: string;
  readonly random: RandomFill;
  /** Resolves when the next transaction may begin: the service's own writes come in between. */
  readonly pause: () => Promise<void>;
}

/** An index that is built from the first leaf on, until it has all of the log. */
interface Rebuild extends Pick<IndexGeneration, "generation" | "key"> {
  readonly tenantId: TenantId;
}

/** What was found on the way. */
interface Filled {
  readonly end: number;
  /** Size of the log; the index serves once it has come so far. */
  readonly size: number;
  readonly erased: number;
  readonly damaged: readonly number[];
}

export class SqliteSearchIndexer implements SearchIndexer {
  readonly #options: SearchIndexerOptions;
  readonly #connection: SqliteConnection;
  readonly #rows: LogRows;
  readonly #terms = new SearchTerms();
  readonly #records: RecordsToIndex;
  readonly #segments: SearchSegments;
  readonly #newest: SqliteStatement;
  readonly #dropUnfinished: SqliteStatement;
  readonly #addKey: SqliteStatement;
  readonly #advance: SqliteStatement;
  readonly #dropOlder: SqliteStatement;

  /** Throws an SQLite error where the file cannot be written. */
  constructor(options: SearchIndexerOptions) {
    this.#options = options;
    const connection = openConnection({ path: options.path, readOnly: false, busyTimeoutMs });
    this.#connection = connection;
    try {
      this.#rows = new LogRows(connection);
      this.#records = new RecordsToIndex(connection);
      this.#segments = new SearchSegments(connection);
      // Behind all that a rebuild which was broken off has left.
      this.#newest = connection.prepare(
        `SELECT max(coalesce((SELECT max(generation) FROM search_keys WHERE tenant_id = ?1), 0),
                    coalesce((SELECT max(generation) FROM search_segments WHERE tenant_id = ?1), 0)) AS generation`,
      );
      this.#dropUnfinished = connection.prepare("DELETE FROM search_keys WHERE tenant_id = ? AND serves = 0");
      this.#addKey = connection.prepare(
        "INSERT INTO search_keys (tenant_id, generation, key, filled_to, serves) VALUES (?, ?, ?, 0, 0)",
      );
      this.#advance = connection.prepare(
        `UPDATE search_keys SET filled_to = ?, serves = ?
          WHERE tenant_id = ? AND generation = ? AND filled_to = ? AND serves = 0`,
      );
      this.#dropOlder = connection.prepare("DELETE FROM search_keys WHERE tenant_id = ? AND generation < ?");
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  async rebuild(tenantId: TenantId, onProgress: (leaves: number) => void): Promise<RebuiltIndex> {
    const rebuild = this.#write(() => this.#begin(tenantId));
    const { generation } = rebuild;
    const parts: Filled[] = [];
    for (let part: Filled | undefined; part === undefined || part.end < part.size; parts.push(part)) {
      await this.#options.pause();
      const before = part;
      part = this.#write(() => this.#fillPart(rebuild, before));
      onProgress(part.end);
    }
    const end = parts.at(-1)?.end ?? 0;
    for (let first = 0; first <= end; first += sweptEach) {
      await this.#options.pause();
      this.#write(() => this.#segments.sweep(tenantId, generation, { first, end: first + sweptEach }));
    }
    await this.#rebuildRegistrations(tenantId);
    return {
      leaves: end,
      erased: parts.reduce((sum, { erased }) => sum + erased, 0),
      damaged: parts.flatMap(({ damaged }) => damaged),
    };
  }

  async #rebuildRegistrations(tenantId: TenantId): Promise<void> {
    const index = new RegistrationIndex(this.#connection);
    const freshKey = this.#options.random(new Uint8Array(artifactKeyBytes));
    this.#write(() => index.clear(tenantId));
    while (!index.isWhole(tenantId)) {
      await this.#options.pause();
      this.#write(() => index.catchUp(tenantId, freshKey));
    }
  }

  async close(): Promise<void> {
    this.#connection.close();
  }

  #begin(tenantId: TenantId): Rebuild {
    this.#sizeOf(tenantId);
    const generation = Number(this.#newest.get(tenantId)?.generation) + 1;
    this.#dropUnfinished.run(tenantId);
    const key = this.#options.random(new Uint8Array(searchKeyBytes));
    this.#addKey.run(tenantId, generation, key);
    return { tenantId, generation, key };
  }

  /** Fills more than was appended since the part before, so that it ends. With the last leaf the index serves. */
  #fillPart(rebuild: Rebuild, before: Filled | undefined): Filled {
    const { tenantId, generation } = rebuild;
    const size = this.#sizeOf(tenantId);
    const first = before?.end ?? 0;
    const end = Math.min(size, first + Math.max(leavesEach, 2 * (size - (before?.size ?? size))));
    const isWhole = end === size;
    if (Number(this.#advance.run(end, isWhole ? 1 : 0, tenantId, generation, first).changes) !== 1)
      throw new Error(`another rebuild of the index of tenant ${tenantId} was faster`);
    const { records, erased, damaged } = this.#records.read(tenantId, { first, end });
    const rows = this.#terms.rowsOf(rebuild, records);
    for (const segment of segmentsOf(rebuild, { first, end }, { rows })) this.#segments.add(tenantId, segment);
    // With its key gone, what is left of the old index tells nothing.
    if (isWhole) this.#dropOlder.run(tenantId, generation);
    return { end, size, erased, damaged };
  }

  #sizeOf(tenantId: TenantId): number {
    const size = this.#rows.headOfTenant(tenantId)?.size;
    if (size === undefined) throw new Error(`tenant ${tenantId} has no log`);
    return size;
  }

  #write<Result>(work: () => Result): Result {
    try {
      return inTransaction(this.#connection, work);
    } catch (error) {
      throw error instanceof Error && "errcode" in error ? toError(describeFailure(error)) : error;
    }
  }
}
