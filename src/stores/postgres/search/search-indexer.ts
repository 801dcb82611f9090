/** Builds search indexes anew beside running services: many short transactions, between which others write. */
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill, TenantId } from "../../../base/ids.ts";
import { systemTimers } from "../../../base/timers.ts";
import { artifactKeyBytes } from "../../../ledger/artifacts/registration-index.ts";
import type { RebuiltIndex, SearchIndexer } from "../../../ledger/ports/search.ts";
import { blockOf, newestEdition, rangeOfBlock, searchKeyBytes } from "../../../ledger/search/search-index.ts";
import type { ConnectionSettings } from "../connection/client-options.ts";
import type { Queries, Statement } from "../connection/connection.ts";
import { TransactionError, toError } from "../connection/errors.ts";
import { ConnectionPool } from "../connection/pool.ts";
import { lockHead } from "../log/log-rows.ts";
import { RegistrationIndex } from "../registrations/registration-index.ts";
import { requireCompleteStore, requireNewestSchema } from "../schema/migrate.ts";
import { readToIndex } from "./search-fill.ts";
import { addTerms, type IndexGeneration, openEnd, SearchTerms } from "./search-index.ts";
import { hasSegments, sweepSegments } from "./search-segments.ts";

/** Leaves of one transaction. */
const leavesEach = 256;
const timeoutMs = 10_000;

const newest: Statement = {
  name: "newest_index",
  text: `SELECT greatest(coalesce((SELECT max(generation) FROM search_keys WHERE tenant_id = $1), 0),
                         coalesce((SELECT max(generation) FROM search_terms WHERE tenant_id = $1), 0)) AS generation`,
};
const dropUnfinished: Statement = {
  name: "drop_unfinished_indexes",
  text: "DELETE FROM search_keys WHERE tenant_id = $1 AND filled_to < fill_end AND fill_end < $2",
};
const insertKey: Statement = {
  name: "insert_rebuilt_key",
  text: "INSERT INTO search_keys (tenant_id, generation, key, filled_to, fill_end, fields) VALUES ($1, $2, $3, 0, $4, $5)",
};
const advance: Statement = {
  name: "advance_index",
  text: "UPDATE search_keys SET filled_to = $4 WHERE tenant_id = $1 AND generation = $2 AND filled_to = $3",
};
const dropOlder: Statement = {
  name: "drop_older_indexes",
  text: "DELETE FROM search_keys WHERE tenant_id = $1 AND generation < $2",
};
const sweep: Statement = {
  name: "sweep_terms",
  text: "DELETE FROM search_terms WHERE tenant_id = $1 AND block = $2 AND generation < $3",
};
export interface PostgresIndexerOptions extends ConnectionSettings {
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Resolves when the next transaction may begin: the services' own writes come in between. */
  readonly pause: () => Promise<void>;
}

/** A rebuild, of the leaves before `end`: those that are appended from its beginning on are in the index anyway. */
interface Rebuild extends Pick<IndexGeneration, "generation" | "key" | "edition"> {
  readonly tenantId: TenantId;
  readonly end: number;
}

/** What was found on the way. */
interface Filled {
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
      await requireNewestSchema(indexer.#pool);
      await requireCompleteStore(indexer.#pool);
      return indexer;
    } catch (error) {
      await indexer.close();
      throw error;
    }
  }

  async rebuild(tenantId: TenantId, onProgress: (leaves: number) => void): Promise<RebuiltIndex> {
    const rebuild = await this.#write(tenantId, (queries, size) => this.#begin(queries, tenantId, size));
    const parts: Filled[] = [];
    for (let first = 0; first < rebuild.end; first += leavesEach) {
      await this.#options.pause();
      parts.push(await this.#write(tenantId, (queries) => this.#fillPart(queries, rebuild, first)));
      onProgress(Math.min(first + leavesEach, rebuild.end));
    }
    // The key first: from then on what is left of the old rows tells nobody anything.
    await this.#write(tenantId, (queries) => queries.query(dropOlder, [tenantId, rebuild.generation]));
    const { generation } = rebuild;
    const isSegmented = await hasSegments(this.#pool);
    for (let block = 0; block <= blockOf(rebuild.end); block += 1) {
      await this.#options.pause();
      await this.#write(tenantId, async (queries) => {
        await queries.query(sweep, [tenantId, block, generation]);
        if (isSegmented) await sweepSegments(queries, tenantId, { ...rangeOfBlock(block), generation });
      });
    }
    await this.#rebuildRegistrations(tenantId);
    return {
      leaves: rebuild.end,
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

  async #begin(queries: Queries, tenantId: TenantId, size: number): Promise<Rebuild> {
    await queries.query(dropUnfinished, [tenantId, openEnd]);
    const [row] = (await queries.query(newest, [tenantId])).rows;
    const generation = Number(row?.generation) + 1;
    const key = this.#options.random(new Uint8Array(searchKeyBytes));
    await queries.query(insertKey, [tenantId, generation, key, size, newestEdition]);
    return { tenantId, generation, key, edition: newestEdition, end: size };
  }

  async #fillPart(queries: Queries, rebuild: Rebuild, first: number): Promise<Filled> {
    const { tenantId, generation } = rebuild;
    const end = Math.min(first + leavesEach, rebuild.end);
    if ((await queries.query(advance, [tenantId, generation, first, end])).count !== 1)
      throw new RebuildError(`another rebuild of the index of tenant ${tenantId} was faster`);
    const { records, erased, damaged } = await readToIndex(queries, tenantId, { first, end }, Number.MAX_SAFE_INTEGER);
    await addTerms(queries, tenantId, this.#terms.rowsOf([rebuild], records));
    return { erased, damaged };
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
