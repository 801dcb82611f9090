/** Legal holds as they are stored. */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import type { LegalHold } from "../../../ledger/ports/records-administration.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";

/** Stands for every record of the tenant; no record has this id. */
const wholeTenant = "";

const columns = "tenant_id, record_id, reason, placed_at_ms";
const covering: Statement = {
  name: "covering_holds",
  text: `SELECT ${columns} FROM legal_holds WHERE tenant_id = $1 AND record_id = ANY ($2::text[])`,
};
const insert: Statement = { name: "place_hold", text: `INSERT INTO legal_holds (${columns}) VALUES ($1, $2, $3, $4)` };
const release: Statement = {
  name: "release_hold",
  text: `DELETE FROM legal_holds WHERE tenant_id = $1 AND record_id = $2 RETURNING ${columns}`,
};
const all: Statement = {
  name: "all_holds",
  text: `SELECT ${columns} FROM legal_holds WHERE $1::text IS NULL OR tenant_id = $1 ORDER BY tenant_id, record_id`,
};

/** For each of the records that is held, a hold that covers it: on the tenant, or on the record itself. */
export async function holdsCovering(
  queries: Queries,
  tenantId: TenantId,
  recordIds: readonly RecordId[],
): Promise<(recordId: RecordId) => LegalHold | undefined> {
  const { rows } = await queries.query(covering, [tenantId, [wholeTenant, ...recordIds]]);
  const holds = rows.map(holdOf);
  const onTenant = holds.find(({ recordId }) => recordId === undefined);
  return (recordId) => onTenant ?? holds.find((hold) => hold.recordId === recordId);
}

/** The hold on exactly this. */
export async function findHold(
  queries: Queries,
  tenantId: TenantId,
  recordId: RecordId | undefined,
): Promise<LegalHold | undefined> {
  const [row] = (await queries.query(covering, [tenantId, [recordId ?? wholeTenant]])).rows;
  return row && holdOf(row);
}

export async function insertHold(queries: Queries, hold: LegalHold): Promise<void> {
  const { tenantId, recordId, reason, placedAtMs } = hold;
  await queries.query(insert, [tenantId, recordId ?? wholeTenant, reason, placedAtMs]);
}

/** Ends the hold on exactly this. */
export async function releaseHold(
  queries: Queries,
  tenantId: TenantId,
  recordId: RecordId | undefined,
): Promise<LegalHold | undefined> {
  const [row] = (await queries.query(release, [tenantId, recordId ?? wholeTenant])).rows;
  return row && holdOf(row);
}

export async function allHolds(queries: Queries, tenantId: TenantId | undefined): Promise<readonly LegalHold[]> {
  return (await queries.query(all, [tenantId ?? null])).rows.map(holdOf);
}

function holdOf(row: Row): LegalHold {
  return {
    tenantId: row.tenant_id as TenantId,
    recordId: row.record_id === wholeTenant ? undefined : (row.record_id as RecordId),
    reason: row.reason as string,
    placedAtMs: row.placed_at_ms as number,
  };
}
