/** Erases records, in a transaction under the lock of the log's head that the caller holds. */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import type { RecordKind } from "../../../ledger/ports/record.ts";
import type { ErasedRecord, ErasurePreview, ErasureRefusal } from "../../../ledger/ports/records-administration.ts";
import type { BatchResult } from "../../../ledger/ports/store.ts";
import { type ErasureOptions, erasureRecord, unerasable } from "../../../ledger/record/operator-records.ts";
import type { AppendableRecord } from "../../../ledger/record/record.ts";
import { readLeaf } from "../../stored-record.ts";
import type { Queries, Statement } from "../connection/connection.ts";
import { removeFromSegments } from "../search/search-segments.ts";
import { holdsCovering } from "./legal-holds.ts";

const findRecords: Statement = {
  name: "records_to_erase",
  text: `SELECT entry.record_id, entry.leaf_index, entry.leaf, erasure_leaf_index, erasure.leaf AS erasure_leaf
           FROM entries entry
           LEFT JOIN erasures ON erasures.tenant_id = $1 AND erasures.record_id = entry.record_id
           LEFT JOIN entries erasure ON erasure.tenant_id = $1 AND erasure.leaf_index = erasure_leaf_index
          WHERE entry.tenant_id = $1 AND entry.record_id = ANY ($2::text[])`,
};
const deleteOpenings: Statement = {
  name: "delete_openings",
  text: "DELETE FROM openings WHERE tenant_id = $1 AND record_id = ANY ($2::text[])",
};
/** The idempotency scope outlives the record, so that a retry is refused rather than recorded again. */
const eraseAnswers: Statement = {
  name: "erase_answers",
  text: `UPDATE kept_answers SET sealed = NULL
          WHERE tenant_id = $1 AND leaf_index = ANY ($2::bigint[]) AND sealed IS NOT NULL RETURNING leaf_index`,
};
/** Relied on before or not: that something is gone is what its artifact is known for from now on. */
export const keepRegistrations: Statement = {
  name: "keep_registrations",
  text: "UPDATE registered_artifacts SET relied_on = 1 WHERE tenant_id = $1 AND leaf_index = ANY ($2::bigint[])",
};
const noteErasures: Statement = {
  name: "note_erasures",
  text: `INSERT INTO erasures (tenant_id, record_id, leaf_index, erasure_leaf_index)
         SELECT head.tenant_id, erased.*
           FROM log_heads head, unnest($2::text[], $3::bigint[], $4::bigint[]) AS erased
          WHERE head.tenant_id = $1`,
};

/** A record that may be erased, or was. */
export interface FoundRecord {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly kind: RecordKind;
  readonly earlier: ErasedRecord | undefined;
}

/** Those of the records that the tenant has. */
export async function findErasable(
  queries: Queries,
  tenantId: TenantId,
  recordIds: readonly RecordId[],
): Promise<ReadonlyMap<RecordId, FoundRecord>> {
  const { rows } = await queries.query(findRecords, [tenantId, recordIds]);
  const found = rows.map((row): [RecordId, FoundRecord] => {
    const recordId = row.record_id as RecordId;
    const leafIndex = row.leaf_index as number;
    const erasureLeafIndex = row.erasure_leaf_index as number | null;
    const { kind } = readLeaf(`The leaf ${leafIndex}`, row.leaf as Uint8Array);
    if (erasureLeafIndex === null) return [recordId, { recordId, leafIndex, kind, earlier: undefined }];
    const { recorded_at: erasedAt } = readLeaf(`The leaf ${erasureLeafIndex}`, row.erasure_leaf as Uint8Array);
    return [
      recordId,
      { recordId, leafIndex, kind, earlier: { recordId, leafIndex, erasureLeafIndex, erasedAt, wasErased: true } },
    ];
  });
  return new Map(found);
}

/** Why records must not be erased; empty where all may be, or were. */
export async function refusalsOf(
  queries: Queries,
  tenantId: TenantId,
  recordIds: readonly RecordId[],
  found: ReadonlyMap<RecordId, FoundRecord>,
): Promise<readonly ErasureRefusal[]> {
  const holdOn = await holdsCovering(queries, tenantId, recordIds);
  return recordIds.flatMap((recordId): readonly ErasureRefusal[] => {
    const one = found.get(recordId);
    if (one === undefined) return [{ recordId, why: "unknown" }];
    if (one.earlier !== undefined) return [];
    if (unerasable[one.kind] !== undefined) return [{ recordId, why: "kind", kind: one.kind }];
    const hold = holdOn(recordId);
    return hold === undefined ? [] : [{ recordId, why: "held", hold }];
  });
}

/** What an erasure would do. */
export async function previewErasure(
  queries: Queries,
  tenantId: TenantId,
  recordIds: readonly RecordId[],
): Promise<ErasurePreview> {
  const found = await findErasable(queries, tenantId, recordIds);
  const refused = await refusalsOf(queries, tenantId, recordIds, found);
  if (refused.length > 0) return { refused };
  const wanted = recordIds.flatMap((recordId) => found.get(recordId) ?? []);
  return {
    erasable: wanted.flatMap(({ earlier, ...record }) => (earlier === undefined ? [record] : [])),
    erased: wanted.flatMap(({ earlier }) => earlier ?? []),
  };
}

/** Removes what must go of the records, appends a leaf for each, and notes them. */
export async function eraseRecords(
  queries: Queries,
  tenantId: TenantId,
  records: readonly FoundRecord[],
  { reason, operator, clock, random }: ErasureOptions,
  append: (records: readonly AppendableRecord[]) => Promise<BatchResult>,
): Promise<void> {
  if (records.length === 0) return;
  const recordIds = records.map(({ recordId }) => recordId);
  const leaves = records.map(({ leafIndex }) => leafIndex);
  const [answers] = await Promise.all([
    queries.query(eraseAnswers, [tenantId, leaves]),
    queries.query(deleteOpenings, [tenantId, recordIds]),
    removeFromSegments(queries, tenantId, leaves),
    queries.query(keepRegistrations, [tenantId, leaves]),
  ]);
  const erasures = records.map(({ recordId, leafIndex, kind }) => {
    const idempotencyRecords = answers.rows.filter((row) => row.leaf_index === leafIndex).length;
    return erasureRecord(
      tenantId,
      { recordId, leafIndex, kind, idempotencyRecords },
      { reason, operator, clock, random },
    );
  });
  const { results } = await append(erasures);
  const leafIndices = results.map((result) => {
    if (typeof result !== "object") throw new Error("The erasure has no place in the log.");
    return result.leafIndex;
  });
  await queries.query(noteErasures, [tenantId, recordIds, leaves, leafIndices]);
}
