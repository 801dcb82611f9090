/** Finds erasures that a restored backup has undone, and removes the data again. */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import { refusalOfKind } from "../../../ledger/audit/undone-erasures.ts";
import { maxErasedAtOnce, type UndoneErasure } from "../../../ledger/ports/records-administration.ts";
import { readErasure } from "../../../ledger/record/operator-records.ts";
import { DamagedError } from "../../errors.ts";
import { openStoredRecord, readLeaf } from "../../stored-record.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";
import { removeFromSegments } from "../search/search-segments.ts";
import { keepRegistrations } from "./eraser.ts";
import { holdsCovering } from "./legal-holds.ts";

const columns = "tenant_id, record_id, leaf_index, erasure_leaf_index";
const isBackSql = `(EXISTS (SELECT FROM openings
                         WHERE openings.tenant_id = erasures.tenant_id AND openings.record_id = erasures.record_id)
             OR EXISTS (SELECT FROM kept_answers
                         WHERE kept_answers.tenant_id = erasures.tenant_id
                           AND kept_answers.leaf_index = erasures.leaf_index AND kept_answers.sealed IS NOT NULL))`;
const cameBack: Statement = {
  name: "returned_erasures",
  text: `SELECT ${columns} FROM erasures WHERE ${isBackSql} ORDER BY tenant_id, leaf_index`,
};
const entriesAt: Statement = {
  name: "entries_of_erasures",
  text: `SELECT entries.leaf_index, record_id, leaf, sealed, opening
           FROM entries LEFT JOIN openings USING (tenant_id, record_id)
          WHERE tenant_id = $1 AND leaf_index = ANY ($2::bigint[])`,
};
const removeOpenings: Statement = {
  name: "remove_returned_openings",
  text: "DELETE FROM openings WHERE tenant_id = $1 AND record_id = ANY ($2::text[])",
};
const removeAnswers: Statement = {
  name: "remove_returned_answers",
  text: `UPDATE kept_answers SET sealed = NULL
          WHERE tenant_id = $1 AND leaf_index = ANY ($2::bigint[]) AND sealed IS NOT NULL`,
};
/** Erasures of one look at what they are about: an old log may have any number. */
const erasuresEach = maxErasedAtOnce;
const ofTenant: Statement = {
  name: "erasures_of_tenant",
  text: `SELECT ${columns} FROM erasures WHERE tenant_id = $1 AND leaf_index > $2 AND ${isBackSql} = $3
          ORDER BY leaf_index LIMIT ${maxErasedAtOnce}`,
};

/** What came back, by tenant. */
export async function findUndone(queries: Queries): Promise<readonly UndoneErasure[]> {
  const rows = (await queries.query(cameBack, [])).rows;
  const found: UndoneErasure[] = [];
  for (const [tenantId, own] of Map.groupBy(rows, ({ tenant_id }) => tenant_id as TenantId))
    found.push(...(await withRefusals(queries, tenantId, own)));
  return found;
}

/**
 * Removes, in a transaction that the caller holds, all that the next erased records of the tenant left again: where
 * anything came back, what others are found by may have too.
 *
 * @param next whether of those whose opening or answer came back, or of all others; and the leaf index of the last record
 *   that was looked at, -1 at first
 * @returns the erasures that were carried out so, and the next `after`; undefined where these were the last
 */
export async function removeUndone(
  queries: Queries,
  tenantId: TenantId,
  { isBack, after }: { readonly isBack: boolean; readonly after: number },
): Promise<{ readonly removed: readonly UndoneErasure[]; readonly after: number | undefined }> {
  const rows = (await queries.query(ofTenant, [tenantId, after, isBack])).rows;
  const removed = (await withRefusals(queries, tenantId, rows)).filter(({ refusal }) => refusal === undefined);
  const recordIds = removed.map(({ recordId }) => recordId);
  const leaves = removed.map(({ leafIndex }) => leafIndex);
  await Promise.all([
    queries.query(removeOpenings, [tenantId, recordIds]),
    removeFromSegments(queries, tenantId, leaves),
    queries.query(removeAnswers, [tenantId, leaves]),
    queries.query(keepRegistrations, [tenantId, leaves]),
  ]);
  const isLast = rows.length < maxErasedAtOnce;
  return { removed, after: isLast ? undefined : (rows.at(-1)?.leaf_index as number) };
}

async function withRefusals(
  queries: Queries,
  tenantId: TenantId,
  rows: readonly Row[],
): Promise<readonly UndoneErasure[]> {
  const found: UndoneErasure[] = [];
  for (let at = 0; at < rows.length; at += erasuresEach) {
    const part = rows.slice(at, at + erasuresEach);
    const leaves = part.flatMap(({ leaf_index, erasure_leaf_index }) => [leaf_index, erasure_leaf_index]);
    const entries = new Map(
      (await queries.query(entriesAt, [tenantId, leaves])).rows.map((row) => [row.leaf_index, row]),
    );
    const holdOn = await holdsCovering(
      queries,
      tenantId,
      part.map(({ record_id }) => record_id as RecordId),
    );
    for (const row of part) found.push(withRefusal(row, entries, holdOn));
  }
  return found;
}

function withRefusal(
  { tenant_id, record_id, leaf_index, erasure_leaf_index }: Row,
  entries: ReadonlyMap<unknown, Row>,
  holdOn: Awaited<ReturnType<typeof holdsCovering>>,
): UndoneErasure {
  const recordId = record_id as RecordId;
  const leafIndex = leaf_index as number;
  const members = {
    tenantId: tenant_id as TenantId,
    recordId,
    leafIndex,
    erasureLeafIndex: erasure_leaf_index as number,
  };
  const entry = entries.get(leaf_index);
  if (entry?.record_id !== recordId || !saysErased(entries.get(erasure_leaf_index), recordId, leafIndex))
    return { ...members, refusal: { why: "unproven" } };
  const { kind } = readLeaf(`The leaf ${leafIndex}`, entry.leaf as Uint8Array);
  const hold = holdOn(recordId);
  return { ...members, refusal: refusalOfKind(kind) ?? (hold && { why: "held", hold }) };
}

/** Whether it is the leaf of a record that erased this one. */
function saysErased(row: Row | undefined, recordId: RecordId, leafIndex: number): boolean {
  if (row === undefined || row.opening === null) return false;
  const { leaf, sealed, opening } = row as { leaf: Uint8Array; sealed: Uint8Array; opening: Uint8Array };
  try {
    const said = readErasure(openStoredRecord(`The leaf ${row.leaf_index}`, leaf, sealed, opening));
    return said?.recordId === recordId && said.leafIndex === leafIndex;
  } catch (error) {
    if (error instanceof DamagedError) return false;
    throw error;
  }
}
