/** Rebuilds the indexes of logs beside running services. */
import { ServiceError } from "../../base/errors.ts";
import type { RandomFill, TenantId } from "../../base/ids.ts";
import { artifactKeyBytes } from "../../ledger/artifacts/registration-index.ts";
import type { RebuiltIndex } from "../../ledger/ports/search.ts";
import { blockOf, rangeOfBlock, searchKeyBytes } from "../../ledger/search/search-index.ts";
import { lockHead } from "./log-rows.ts";
import { type Database, type Transaction, translated } from "./queries.ts";
import { rebuildRegistrations } from "./registrations.ts";
import { tables } from "./schema.ts";
import { type IndexGeneration, SearchTerms, segmentsOf } from "./search-backlog.ts";
import { addSegments, sweepSegments } from "./search-segments.ts";
import { readToIndex } from "./stored-record.ts";

/** Leaves of one transaction, which holds the lock of the log's head, or of an embedded store, for about 10 ms. */
const leavesEach = 64;

/** After the remains of interrupted rebuilds. */
const newest = `SELECT coalesce(max(generation), 0) AS generation
    FROM (SELECT max(generation) AS generation FROM search_keys WHERE tenant_id = $1
           UNION ALL SELECT max(generation) FROM search_segments WHERE tenant_id = $1) AS all_of_them`;
const dropUnfinished = "DELETE FROM search_keys WHERE tenant_id = $1 AND serves = 0";
const advance = `UPDATE search_keys SET filled_to = $4, serves = $5
   WHERE tenant_id = $1 AND generation = $2 AND filled_to = $3 AND serves = 0`;
const dropOlder = "DELETE FROM search_keys WHERE tenant_id = $1 AND generation < $2";

export interface RebuildOptions {
  readonly random: RandomFill;
  /** Resolves when the next transaction may begin, so that services can write in between. */
  readonly pause: () => Promise<void>;
  readonly onProgress: (leaves: number) => void;
}

/** An index that is built from the first leaf on, until it has the whole log. */
interface Rebuild extends Pick<IndexGeneration, "generation" | "key"> {
  readonly tenantId: TenantId;
  readonly terms: SearchTerms;
}

/** What was read so far. */
interface Filled extends RebuiltIndex {
  /** Size of the log; the index comes into use at this size. */
  readonly size: number;
}

/** A failure for the operator, not an error of the store. */
class RebuildError extends Error {
  override readonly name = "RebuildError";
}

/**
 * Rebuilds both indexes of a tenant's log from its records, beside a running service: the search index in many small
 * transactions, then the index of registrations in one, for which appends to the log wait. The old indexes serve until
 * the new ones are complete: an interrupted rebuild has no visible effect, and the next one removes its rows. Rejects
 * with an Error if the tenant has no log, or a later rebuild of the same index finished first; with
 * `store_unavailable` if the store fails. If a registration does not open, the old index of registrations stays.
 */
export async function rebuildIndexes(
  database: Database,
  tenantId: TenantId,
  { random, pause, onProgress }: RebuildOptions,
): Promise<RebuiltIndex> {
  /** Under the lock of the log's head: a concurrent append or erasure sees all of it, or none. */
  const write = <Result>(work: (transaction: Transaction, size: number) => Promise<Result>): Promise<Result> => {
    const toError = (error: unknown) => (error instanceof RebuildError ? error : database.toError(error));
    return translated({ toError }, () =>
      database.transact(async (transaction) => {
        const head = await lockHead(transaction, tenantId);
        if (head === undefined) throw new RebuildError(`tenant ${tenantId} has no log`);
        return work(transaction, head.size);
      }),
    );
  };
  const key = random(new Uint8Array(searchKeyBytes));
  const generation = await write((transaction) => begin(transaction, tenantId, key));
  const rebuild = { tenantId, generation, key, terms: new SearchTerms() };
  let filled: Filled | undefined;
  while (filled === undefined || filled.leaves < filled.size) {
    await pause();
    const before: Filled | undefined = filled;
    filled = await write((transaction, size) => fillPart(transaction, rebuild, size, before));
    onProgress(filled.leaves);
  }
  const { size: _, ...read } = filled;
  for (let block = 0; block <= blockOf(read.leaves); block += 1) {
    await pause();
    const { first, end } = rangeOfBlock(block);
    await write((transaction) => transaction.query(sweepSegments, [tenantId, first, end, generation]));
  }
  const freshKey = random(new Uint8Array(artifactKeyBytes));
  await pause();
  await write((transaction, size) => rebuildRegistrations(transaction, tenantId, size, freshKey)).catch(
    (error: unknown) => {
      // A registration does not open. It is among the damaged leaves.
      if (!(error instanceof ServiceError) || error.reason !== "internal") throw error;
    },
  );
  return read;
}

/** Begins an index, and resolves with its generation. */
async function begin(transaction: Transaction, tenantId: TenantId, key: Uint8Array): Promise<number> {
  const [row] = (await transaction.query(newest, [tenantId])).rows;
  await transaction.query(dropUnfinished, [tenantId]);
  const generation = Number(row?.generation) + 1;
  await transaction.insert(tables.searchKeys, [[tenantId, generation, key, 0, 0]]);
  return generation;
}

/** Fills more leaves than services appended since the previous part, so that the rebuild ends. */
async function fillPart(
  transaction: Transaction,
  rebuild: Rebuild,
  size: number,
  before: Filled = { leaves: 0, size, erased: 0, damaged: [] },
): Promise<Filled> {
  const { tenantId, generation, terms } = rebuild;
  const first = before.leaves;
  const end = Math.min(size, first + Math.max(leavesEach, 2 * (size - before.size)));
  const isWhole = end === size;
  if ((await transaction.query(advance, [tenantId, generation, first, end, isWhole ? 1 : 0])).count !== 1)
    throw new RebuildError(`another rebuild of the index of tenant ${tenantId} was faster`);
  const read = await readToIndex(transaction, [{ tenantId, first, end }], Number.MAX_SAFE_INTEGER);
  const { records, erased, damaged } = read.get(tenantId) ?? { records: [], erased: 0, damaged: [] };
  const segments = segmentsOf(rebuild, { first, end }, terms.of(rebuild, records));
  await addSegments(
    transaction,
    segments.map((segment) => ({ tenantId, ...segment })),
  );
  // Without its key, the old index reveals nothing.
  if (isWhole) await transaction.query(dropOlder, [tenantId, generation]);
  return { leaves: end, size, erased: before.erased + erased, damaged: [...before.damaged, ...damaged] };
}
