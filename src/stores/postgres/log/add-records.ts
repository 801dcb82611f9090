/** Adds a batch to a log's right edge, and prepares the statements that store it. */
import type { TenantId } from "../../../base/ids.ts";
import type { BatchPlan } from "../../../ledger/append/batch-plan.ts";
import { committedRecords } from "../../../ledger/append/committed-record.ts";
import type { Sequenced } from "../../../ledger/append/sequence.ts";
import type { BatchResult, LogState } from "../../../ledger/ports/store.ts";
import { indexedRecords } from "../../../ledger/search/search-terms.ts";
import type { RightEdge } from "../../../ledger/tlog/right-edge.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import type { IndexGeneration, SearchWriter } from "../search/search-index.ts";
import { keepAnswers } from "./idempotency-records.ts";
import { insertRecords, upsertTiles } from "./log-statements.ts";

interface Adding {
  readonly connection: PostgresConnection;
  readonly tenantId: TenantId;
  readonly indexes: readonly IndexGeneration[];
  readonly search: SearchWriter;
  readonly nowMs: number;
}

/** Adds sequenced records to the edge, and says what is to be written of them, under the lock of the log's head. */
export function addRecords(
  plan: BatchPlan,
  sequenced: Sequenced,
  edge: RightEdge,
  { connection, tenantId, indexes, search, nowMs }: Adding,
) {
  const { entries, head } = sequenced;
  for (const { leafHash } of entries) edge.append(leafHash);
  const tree = edge.tree();
  const log: LogState = { tenantId, origin: head.origin, size: edge.size, root: tree.root() };
  const result: BatchResult = { log: log.origin, results: plan.results(committedRecords(sequenced, tree, log)) };
  const tiles = edge.takeTouched();
  const own = entries.slice(-plan.fresh.length);
  const calls = plan.fresh.flatMap(({ idempotency }, position) => {
    const entry = own[position];
    return idempotency === undefined || entry === undefined ? [] : [[idempotency, entry] as const];
  });
  const writes = [
    () => insertRecords(connection, tenantId, entries),
    () => upsertTiles(connection, tenantId, tiles),
    () => keepAnswers(connection, tenantId, calls, log.size, nowMs),
    () => search.add(connection, tenantId, indexes, indexedRecords(sequenced, plan.fresh)),
  ];
  return { log, result, writes };
}
