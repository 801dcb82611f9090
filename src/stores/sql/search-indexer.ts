/** Rebuilds the indexes of logs beside running services. */
import { ServiceError } from "../../base/errors.ts";
import type { RandomFill, TenantId } from "../../base/ids.ts";
import { artifactKeyBytes } from "../../ledger/artifacts/registration-index.ts";
import type { RebuiltIndex } from "../../ledger/ports/search.ts";
import { UnstorableError } from "../../ledger/ports/store.ts";
import { blockLeaves, searchKeyBytes } from "../../ledger/search/search-index.ts";
import { lockHead } from "./log-rows.ts";
import { type Database, type Transaction, translated } from "./queries.ts";
import { rebuildRegistrations } from "./registrations.ts";
import { tables } from "./schema.ts";
import { lastBoundary, SearchTerms, segmentsOf } from "./search-backlog.ts";
import { addSearch, dropSegments, indexOf } from "./search-segments.ts";
import { readToIndex } from "./stored-record.ts";

/** Leaves of one transaction, which holds the lock of the log's head, or of an embedded store, for about 10 ms. */
const leavesEach = 64;

export interface RebuildOptions {
  readonly random: RandomFill;
  /** Resolves when the next transaction may begin, so that services can write in between. */
  readonly pause: () => Promise<void>;
  readonly onProgress: (leaves: number) => void;
}

/**
 * Rebuilds both indexes of a tenant's log from its records, beside a running service: the search index part by part in
 * many small transactions, then the index of registrations in one, for which appends to the log wait. Whatever is not
 * rebuilt yet serves as it is, so an interrupted rebuild has no visible effect. Rejects with `UnstorableError` if the
 * tenant has no log; with `store_unavailable` if the store fails. If a registration does not open, the old index of
 * registrations stays.
 */
export async function rebuildIndexes(
  database: Database,
  tenantId: TenantId,
  { random, pause, onProgress }: RebuildOptions,
): Promise<RebuiltIndex> {
  /** Under the lock of the log's head: a concurrent append or erasure sees all of it, or none. */
  const write = <Result>(work: (transaction: Transaction, size: number) => Promise<Result>): Promise<Result> =>
    translated(database, () =>
      database.transact(async (transaction) => {
        const head = await lockHead(transaction, tenantId);
        if (head === undefined) throw new UnstorableError(`tenant ${tenantId} has no log`);
        return work(transaction, head.size);
      }),
    );
  const searchKey = random(new Uint8Array(searchKeyBytes));
  /**
   * Begins an index if the log has lost its key: segments of a lost key find nothing, and block new ones. Removes those
   * of one block. Resolves with whether there may be more.
   */
  const begin = (first: number) =>
    write(async (transaction, size) => {
      if ((await indexOf(transaction, tenantId)) !== undefined) return false;
      const isLast = first + blockLeaves >= size;
      const end = isLast ? Number.MAX_SAFE_INTEGER : first + blockLeaves;
      await transaction.query(dropSegments, [tenantId, first, end]);
      if (isLast) await transaction.insert(tables.searchKeys, [[tenantId, searchKey, 0]]);
      return !isLast;
    });
  for (let first = 0; await begin(first); first += blockLeaves) await pause();
  const terms = new SearchTerms();
  /** Fills more leaves than services appended since the previous part, so that the rebuild ends. */
  const fill = (first: number, appended: (size: number) => number) =>
    write(async (transaction, size) => {
      const index = await indexOf(transaction, tenantId);
      if (index === undefined) throw new UnstorableError(`the index of tenant ${tenantId} lost its key`);
      // No segment of this key crosses a boundary.
      const end = Math.min(size, lastBoundary(index, first + Math.max(leavesEach, 2 * appended(size))));
      const read = await readToIndex(transaction, [{ tenantId, first, end }], Number.MAX_SAFE_INTEGER);
      const { records, erased, damaged } = read.get(tenantId) ?? { records: [], erased: 0, damaged: [] };
      const segments = segmentsOf(index, { first, end }, terms.of(index, records));
      await transaction.query(dropSegments, [tenantId, first, end]);
      await addSearch(transaction, [{ tenantId, segments, filledTo: Math.min(size, Math.max(index.filledTo, end)) }]);
      return { end, size, erased, damaged };
    });
  let [leaves, erased, logSize] = [0, 0, Number.POSITIVE_INFINITY];
  const damaged: number[] = [];
  while (leaves < logSize) {
    await pause();
    const part = await fill(leaves, (size) => Math.max(0, size - logSize));
    [leaves, erased, logSize] = [part.end, erased + part.erased, part.size];
    damaged.push(...part.damaged);
    onProgress(leaves);
  }
  const freshKey = random(new Uint8Array(artifactKeyBytes));
  await pause();
  await write((transaction, size) => rebuildRegistrations(transaction, tenantId, size, freshKey)).catch(
    (error: unknown) => {
      // A registration does not open. It is among the damaged leaves.
      if (!(error instanceof ServiceError) || error.reason !== "internal") throw error;
    },
  );
  return { leaves, erased, damaged };
}
