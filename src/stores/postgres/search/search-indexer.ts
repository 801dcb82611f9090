/** Builds search indexes anew beside running services: many short transactions, between which others write. */
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill, TenantId } from "../../../base/ids.ts";
import { systemTimers } from "../../../base/timers.ts";
import { artifactKeyBytes } from "../../../ledger/artifacts/registration-index.ts";
import type { RebuiltIndex, SearchIndexer } from "../../../ledger/ports/search.ts";
import { blockOf, rangeOfBlock, searchKeyBytes } from "../../../ledger/search/search-index.ts";
import { type IndexGeneration, SearchTerms, segmentsOf } from "../../search-backlog.ts";
import type { ConnectionSettings } from "../connection/client-options.ts";
import type { Queries, Statement } from "../connection/connection.ts";
import { TransactionError, toError } from "../connection/errors.ts";
import { ConnectionPool } from "../connection/pool.ts";
import { lockHead } from "../log/log-rows.ts";
import { RegistrationIndex } from "../registrations/registration-index.ts";
import { requireCompleteStore, requireSchema } from "../schema/migrate.ts";
import { readToIndex } from "./search-fill.ts";
import { addSegmentsTo, sweepSegments } from "./search-segments.ts";

/** Leaves of one transaction. */
const leavesEach = 256;
const timeoutMs = 10_000;

/** Behind all that a rebuild which was broken off has left. */
const newest: Statement = {
  name: "newest_index",
  text: `SELECT greatest(coalesce((SELECT max(generation) FROM search_keys WHERE tenant_id = $1), 0),
                         coalesce((SELECT max(generation) FROM search_segments WHERE tenant_id = $1), 0)) AS generation`,
};
const dropUnfinished: Statement = {
  name: "drop_unfinished_indexes",
  text: "DELETE FROM search_keys WHERE tenant_id = $1 AND serves = 0",
};
const insertKey: Statement = {
  name: "insert_rebuilt_key",
  text: "INSERT INTO search_keys (tenant_id, generation, key, filled_to, serves) VALUES ($1, $2, $3, 0, 0)",
};
const advance: Statement = {
  name: "advance_index",
  text: `UPDATE search_keys SET filled_to = $4, serves = $5
          WHERE tenant_id = $1 AND generation = $2 AND filled_to = $3 AND serves = 0`,
};
const dropOlder: Statement = {
  name: "drop_older_indexes",
  text: "DELETE FROM search_keys WHERE tenant_id = $1 AND generation < $2",
};

export interface PostgresIndexerOptions extends ConnectionSettings {
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Resolves when the next transaction may begin: the services' own writes come in between. */
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

/** Not an error of the store: its message is for the operator. */
class RebuildError extends TransactionError {
  override readonly name = "RebuildError";
}

export class PostgresSearchIndexer implements SearchIndexer {
  readonly #options: PostgresIndexerOptions;
  readonly #pool: ConnectionPool;
  readonly #terms = new SearchTerms();

  private constructor(options: PostgresIndexerOptions) {
    this.#options = options;
    this.#pool = new ConnectionPool({ ...options, poolSize: 1, timeoutMs, timers: systemTimers });
  }

  /** Rejects with `IncompatibleStoreError` for another schema, with an error of the driver where it cannot be reached. */
  static async open(options: PostgresIndexerOptions): Promise<PostgresSearchIndexer> {
    const indexer = new PostgresSearchIndexer(options);
    try {
      await requireSchema(indexer.#pool);
      await requireCompleteStore(indexer.#pool);
      return indexer;
    } catch (error) {
      await indexer.close();
      throw error;
    }
  }

  async rebuild(tenantId: TenantId, onProgress: (leaves: number) => void): Promise<RebuiltIndex> {
    const rebuild = await this.#write(tenantId, (queries) => this.#begin(queries, tenantId));
    const parts: Filled[] = [];
    for (let part: Filled | undefined; part === undefined || part.end < part.size; parts.push(part)) {
      await this.#options.pause();
      const before = part;
      part = await this.#write(tenantId, (queries, size) => this.#fillPart(queries, rebuild, size, before));
      onProgress(part.end);
    }
    const { generation } = rebuild;
    const end = parts.at(-1)?.end ?? 0;
    for (let block = 0; block <= blockOf(end); block += 1) {
      await this.#options.pause();
      const range = { ...rangeOfBlock(block), generation };
      await this.#write(tenantId, (queries) => sweepSegments(queries, tenantId, range));
    }
    await this.#rebuildRegistrations(tenantId);
    return {
      leaves: end,
      erased: parts.reduce((sum, { erased }) => sum + erased, 0),
      damaged: parts.flatMap(({ damaged }) => damaged),
    };
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  async #rebuildRegistrations(tenantId: TenantId): Promise<void> {
    const index = new RegistrationIndex();
    const freshKey = this.#options.random(new Uint8Array(artifactKeyBytes));
    try {
      await index.clear(this.#pool, tenantId);
      while (!(await index.catchUpSome(this.#pool, tenantId, freshKey))) await this.#options.pause();
    } catch (error) {
      throw toError(error);
    }
  }

  async #begin(queries: Queries, tenantId: TenantId): Promise<Rebuild> {
    const [row] = (await queries.query(newest, [tenantId])).rows;
    await queries.query(dropUnfinished, [tenantId]);
    const generation = Number(row?.generation) + 1;
    const key = this.#options.random(new Uint8Array(searchKeyBytes));
    await queries.query(insertKey, [tenantId, generation, key]);
    return { tenantId, generation, key };
  }

  /** Fills more than was appended since the part before, so that it ends. With the last leaf the index serves. */
  async #fillPart(queries: Queries, rebuild: Rebuild, size: number, before: Filled | undefined): Promise<Filled> {
    const { tenantId, generation } = rebuild;
    const first = before?.end ?? 0;
    const end = Math.min(size, first + Math.max(leavesEach, 2 * (size - (before?.size ?? size))));
    const isWhole = end === size;
    if ((await queries.query(advance, [tenantId, generation, first, end, isWhole ? 1 : 0])).count !== 1)
      throw new RebuildError(`another rebuild of the index of tenant ${tenantId} was faster`);
    const { records, erased, damaged } = await readToIndex(queries, tenantId, { first, end }, Number.MAX_SAFE_INTEGER);
    const rows = this.#terms.rowsOf(rebuild, records);
    await addSegmentsTo(queries, tenantId, segmentsOf(rebuild, { first, end }, { rows }));
    // With its key gone, what is left of the old index tells nothing.
    if (isWhole) await queries.query(dropOlder, [tenantId, generation]);
    return { end, size, erased, damaged };
  }

  /** Under the lock of the log's head: whoever appends or erases meanwhile sees all of it, or none. */
  async #write<Result>(tenantId: TenantId, work: (queries: Queries, size: number) => Promise<Result>): Promise<Result> {
    try {
      return await this.#pool.retrying(() =>
        this.#pool.transaction(async (connection) => {
          const head = await lockHead(connection, tenantId);
          if (head === undefined) throw new RebuildError(`tenant ${tenantId} has no log`);
          return work(connection, head.size);
        }),
      );
    } catch (error) {
      throw error instanceof RebuildError ? error : toError(error);
    }
  }
}
