/** Builds search indexes anew beside a running service: many short transactions, between which others write. */
import type { RandomFill, TenantId } from "../../../base/ids.ts";
import { artifactKeyBytes } from "../../../ledger/artifacts/registration-index.ts";
import type { RebuiltIndex, SearchIndexer } from "../../../ledger/ports/search.ts";
import { blockOf, searchKeyBytes } from "../../../ledger/search/search-index.ts";
import { inTransaction, openConnection, type SqliteConnection, type SqliteStatement } from "../connection.ts";
import { describeFailure, toError } from "../errors.ts";
import { LogRows } from "../log/log-rows.ts";
import { RegistrationIndex } from "../registrations/registration-index.ts";
import { type Filled, SearchFill } from "./search-fill.ts";
import { type SearchSegments, segmentsOf } from "./search-segments.ts";
import { type IndexGeneration, SearchWriter } from "./search-writer.ts";

/** Leaves of one transaction, which holds the write lock for about 10 ms. */
const leavesEach = 64;
/** Leaves of which one transaction clears up; they are all of one block. */
const sweptEach = 256;
const busyTimeoutMs = 10_000;

export interface SearchIndexerOptions {
  /** Path of the database file. It must exist and have this program's schema. */
  readonly path: string;
  readonly random: RandomFill;
  /** Resolves when the next transaction may begin: the service's own writes come in between. */
  readonly pause: () => Promise<void>;
}

/** A rebuild, of the leaves before `end`: those that are appended from its beginning on are in the index anyway. */
interface Rebuild extends IndexGeneration {
  readonly tenantId: TenantId;
  readonly end: number;
}

export class SqliteSearchIndexer implements SearchIndexer {
  readonly #options: SearchIndexerOptions;
  readonly #connection: SqliteConnection;
  readonly #rows: LogRows;
  readonly #writer: SearchWriter;
  readonly #fill: SearchFill;
  readonly #segments: SearchSegments | undefined;
  readonly #newest: SqliteStatement;
  readonly #dropOlder: SqliteStatement;
  readonly #advance: SqliteStatement;
  readonly #sweep: SqliteStatement;

  /** Throws an SQLite error where the file cannot be written. */
  constructor(options: SearchIndexerOptions) {
    this.#options = options;
    const connection = openConnection({ path: options.path, readOnly: false, busyTimeoutMs });
    this.#connection = connection;
    try {
      this.#rows = new LogRows(connection);
      this.#writer = new SearchWriter(connection);
      this.#fill = new SearchFill(connection, this.#writer);
      this.#segments = segmentsOf(connection);
      this.#newest = connection.prepare(
        "SELECT coalesce(max(generation), 0) AS generation FROM search_keys WHERE tenant_id = ?",
      );
      this.#dropOlder = connection.prepare("DELETE FROM search_keys WHERE tenant_id = ? AND generation < ?");
      this.#advance = connection.prepare(
        "UPDATE search_keys SET filled_to = ? WHERE tenant_id = ? AND generation = ? AND filled_to = ?",
      );
      this.#sweep = connection.prepare(
        `DELETE FROM search_terms
          WHERE tenant_id = ? AND block = ? AND generation < ? AND leaf_index >= ? AND leaf_index < ?`,
      );
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  async rebuild(tenantId: TenantId, onProgress: (leaves: number) => void): Promise<RebuiltIndex> {
    const rebuild = this.#write(() => this.#begin(tenantId));
    const parts: Filled[] = [];
    for (let first = 0; first < rebuild.end; first += leavesEach) {
      await this.#options.pause();
      parts.push(this.#write(() => this.#fillPart(rebuild, first)));
      onProgress(Math.min(first + leavesEach, rebuild.end));
    }
    // The key first: from then on what is left of the old rows tells nobody anything.
    this.#write(() => this.#dropOlder.run(tenantId, rebuild.generation));
    for (let first = 0; first <= rebuild.end; first += sweptEach) {
      await this.#options.pause();
      const { generation } = rebuild;
      this.#write(() => {
        this.#sweep.run(tenantId, blockOf(first), generation, first, first + sweptEach);
        this.#segments?.sweep(tenantId, generation, { first, end: first + sweptEach });
      });
    }
    await this.#rebuildRegistrations(tenantId);
    return {
      leaves: rebuild.end,
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
    const end = this.#rows.headOfTenant(tenantId)?.size;
    if (end === undefined) throw new Error(`tenant ${tenantId} has no log`);
    const generation = Number(this.#newest.get(tenantId)?.generation) + 1;
    const key = this.#options.random(new Uint8Array(searchKeyBytes));
    return { ...this.#writer.begin(tenantId, { generation, key }, end), tenantId, end };
  }

  #fillPart(rebuild: Rebuild, first: number): Filled {
    const { tenantId, generation } = rebuild;
    const end = Math.min(first + leavesEach, rebuild.end);
    if (Number(this.#advance.run(end, tenantId, generation, first).changes) !== 1)
      throw new Error(`another rebuild of the index of tenant ${tenantId} was faster`);
    return this.#fill.fill(tenantId, rebuild, first, end);
  }

  #write<Result>(work: () => Result): Result {
    try {
      return inTransaction(this.#connection, work);
    } catch (error) {
      throw error instanceof Error && "errcode" in error ? toError(describeFailure(error)) : error;
    }
  }
}
