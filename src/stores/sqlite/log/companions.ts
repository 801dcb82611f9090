/** Rows beside a log's entries (idempotency records, search index), for the audit. */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import type { Companions, RegistrationRows, SearchRows } from "../../../ledger/ports/archive.ts";
import type { IdempotencyRow } from "../../../ledger/record/idempotency-record.ts";
import { rangeOfBlock } from "../../../ledger/search/search-index.ts";
import { DamagedError } from "../../errors.ts";
import { lastLeafSql, toAuditedRow, toRegistrationRowOfLeaf } from "../../found-registrations.ts";
import type { SqliteConnection } from "../connection.ts";
import { servingSql, toIndex } from "../search/search-index.ts";
import { SearchSegments } from "../search/search-segments.ts";
import { isTimeAccepted, LogRows } from "./log-rows.ts";

/** Throws `DamagedError` if there is no such log. */
export function companionsOf(connection: SqliteConnection, tenantId: TenantId): Companions {
  const head = new LogRows(connection).headOfTenant(tenantId);
  if (head === undefined) throw new DamagedError(`the log of ${tenantId} has no head`);
  return {
    lastRecordedAtMs: head.lastRecordedAtMs,
    isTimeAccepted: isTimeAccepted(connection, head),
    searchIndex: searchRows(connection, tenantId, head.size),
    registrations: registrationRows(connection, tenantId),
    idempotencyRows: () => idempotencyRows(connection, tenantId),
  };
}

function searchRows(connection: SqliteConnection, tenantId: TenantId, size: number): SearchRows | undefined {
  const row = connection.prepare(servingSql).get(tenantId);
  if (row === undefined) return undefined;
  const { generation, key, filledTo } = toIndex(row);
  const segments = new SearchSegments(connection);
  return {
    key,
    waiting: [{ first: filledTo, end: size }, ...segments.emptied(tenantId, generation)],
    terms: async (block) => [...segments.rowsOf(tenantId, generation, rangeOfBlock(block))],
  };
}

function registrationRows(connection: SqliteConnection, tenantId: TenantId): RegistrationRows {
  const head = connection
    .prepare("SELECT registered_to, key FROM log_heads LEFT JOIN artifact_keys USING (tenant_id) WHERE tenant_id = ?")
    .get(tenantId);
  const within = connection.prepare(
    "SELECT * FROM registered_artifacts WHERE tenant_id = ? AND leaf_index >= ? AND leaf_index < ?",
  );
  const last = connection.prepare(lastLeafSql("?1", "?2"));
  const of = connection.prepare(
    `SELECT artifact, leaf_index, relied_on, record_id, leaf, sealed, opening
       FROM registered_artifacts
       JOIN entries USING (tenant_id, leaf_index)
       LEFT JOIN openings USING (tenant_id, record_id)
      WHERE tenant_id = ? AND artifact = ? ORDER BY leaf_index`,
  );
  return {
    key: (head?.key as Uint8Array | null) ?? undefined,
    indexedTo: head?.registered_to as number,
    within: async (first, end) => [...within.iterate(tenantId, first, end)].map(toRegistrationRowOfLeaf),
    lastOf: async (artifact) => (last.get(tenantId, artifact)?.leaf_index as number | null) ?? undefined,
    of: async (artifact) => [...of.iterate(tenantId, artifact)].map(toAuditedRow),
  };
}

async function* idempotencyRows(connection: SqliteConnection, tenantId: TenantId): AsyncGenerator<IdempotencyRow> {
  const rows = connection
    .prepare(
      `SELECT leaf_index, tree_size, kept_answers.sealed AS answer, record_id, leaf, entries.sealed AS record, opening
         FROM kept_answers
         LEFT JOIN entries USING (tenant_id, leaf_index)
         LEFT JOIN openings USING (tenant_id, record_id)
        WHERE tenant_id = ? ORDER BY leaf_index`,
    )
    .iterate(tenantId);
  for (const row of rows)
    yield {
      leafIndex: row.leaf_index as number,
      treeSize: row.tree_size as number,
      answer: row.answer as Uint8Array | null,
      opening: row.opening as Uint8Array | null,
      recordId: row.record_id as RecordId,
      leaf: row.leaf as Uint8Array,
      record: row.record as Uint8Array,
    };
}
