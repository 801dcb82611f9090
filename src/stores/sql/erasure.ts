/** Erases records and holds them, in transactions under the lock of the log's head; finds erasures that were undone. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { RecordKind } from "../../ledger/ports/record.ts";
import {
  type ErasedRecord,
  type ErasurePreview,
  type ErasureRefusal,
  type LegalHold,
  maxErasedAtOnce,
  type NotedErasure,
  type ReapplyRefusal,
  type UndoneErasure,
} from "../../ledger/ports/records-administration.ts";
import type { AppendableRecord, BatchResult } from "../../ledger/ports/store.ts";
import { type ErasureOptions, erasureRecord, readErasure, unerasable } from "../../ledger/record/operator-records.ts";
import { DamagedError } from "../files/errors.ts";
import type { Queries, Row, Transaction } from "./queries.ts";
import { tables } from "./schema.ts";
import { removeFromSegments } from "./search-segments.ts";
import { openStoredRecord, readLeaf } from "./stored-record.ts";

const isBackSql = (tenant: string) => `(EXISTS (SELECT 1 FROM /*main.*/openings AS own
                         WHERE own.tenant_id = ${tenant} AND own.record_id = erasures.record_id)
             OR EXISTS (SELECT 1 FROM kept_answers
                         WHERE kept_answers.tenant_id = ${tenant}
                           AND kept_answers.leaf_index = erasures.leaf_index AND kept_answers.sealed IS NOT NULL))`;
/** Records and their erasures, with the record of the erasure. Either may be missing. */
const recordsAndErasures = (from: string) => `
  SELECT entry.record_id, entry.leaf_index, entry.leaf, erasures.record_id AS erased_record_id,
         erasures.leaf_index AS erased_leaf_index, erasure_leaf_index, erasure.leaf AS erasure_leaf,
         erasure.sealed AS erasure_sealed, said.opening AS erasure_opening, ${isBackSql("$1")} AS is_back
    FROM ${from}
    LEFT JOIN entries AS erasure ON erasure.tenant_id = $1 AND erasure.leaf_index = erasure_leaf_index
    LEFT JOIN /*main.*/openings AS said ON said.tenant_id = $1 AND said.record_id = erasure.record_id`;
const findRecords = `${recordsAndErasures(`
         entries AS entry
    LEFT JOIN erasures ON erasures.tenant_id = $1 AND erasures.record_id = entry.record_id`)}
   WHERE entry.tenant_id = $1 AND entry.record_id = ANY ($2::text[])`;
const findErasures = `${recordsAndErasures(`
         erasures
    LEFT JOIN entries AS entry ON entry.tenant_id = $1 AND entry.leaf_index = erasures.leaf_index`)}
   WHERE erasures.tenant_id = $1 AND erasures.leaf_index > $2 AND ${isBackSql("$1")} = $3
   ORDER BY erasures.leaf_index LIMIT ${maxErasedAtOnce}`;
const deleteOpenings = "DELETE FROM openings WHERE tenant_id = $1 AND record_id = ANY ($2::text[])";
/** The idempotency scope outlives the record, so that a retry is refused rather than recorded again. */
const eraseAnswers = `UPDATE kept_answers SET sealed = NULL
   WHERE tenant_id = $1 AND leaf_index = ANY ($2::bigint[]) AND sealed IS NOT NULL RETURNING leaf_index`;
/** The index keeps registrations of erased records: the erasure stays known for their artifact. */
const keepRegistrations = `UPDATE registered_artifacts SET relied_on = 1
   WHERE tenant_id = $1 AND leaf_index = ANY ($2::bigint[])`;

/** A record that may be erased, or was, or must not be. */
export interface FoundRecord {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly kind: RecordKind;
  /** Its erasure; `wasErased` is false if a backup brought parts of the record back. */
  readonly earlier: ErasedRecord | undefined;
  /** Undefined if it may be erased, or was. */
  readonly refusal: ReapplyRefusal | undefined;
}

/** Returns the given records that the tenant has, in the given order. Erasure leaves are appended in the same order. */
export async function findErasable(
  queries: Queries,
  tenantId: TenantId,
  recordIds: readonly RecordId[],
): Promise<readonly FoundRecord[]> {
  const { rows } = await queries.query(findRecords, [tenantId, recordIds]);
  const holdOn = await holdsCovering(queries, tenantId, recordIds);
  const found = new Map(
    rows.map((row): [RecordId, FoundRecord] => {
      const recordId = row.record_id as RecordId;
      const leafIndex = row.leaf_index as number;
      const erasureLeafIndex = row.erasure_leaf_index as number | null;
      const { kind } = readLeaf(`The leaf ${leafIndex}`, row.leaf as Uint8Array);
      const one = { recordId, leafIndex, kind };
      if (erasureLeafIndex === null)
        return [recordId, { ...one, earlier: undefined, refusal: refusalOf(kind, recordId, holdOn) }];
      const { recorded_at: erasedAt } = readLeaf(`The leaf ${erasureLeafIndex}`, row.erasure_leaf as Uint8Array);
      const isBack = Boolean(row.is_back);
      const earlier = { recordId, leafIndex, erasureLeafIndex, erasedAt, wasErased: !isBack };
      return [recordId, { ...one, earlier, refusal: isBack ? refusalOfErased(row, holdOn) : undefined }];
    }),
  );
  return [...new Set(recordIds)].flatMap((recordId) => found.get(recordId) ?? []);
}

function refusalOf(kind: RecordKind, recordId: RecordId, holdOn: HoldOn): ReapplyRefusal | undefined {
  if (unerasable[kind] !== undefined) return { why: "kind", kind };
  const hold = holdOn(recordId);
  return hold === undefined ? undefined : { why: "held", hold };
}

/** Returns why records must not be erased; empty if all may be, or were. */
export function refusalsOf(recordIds: readonly RecordId[], found: readonly FoundRecord[]): readonly ErasureRefusal[] {
  const refusals = new Map(found.map(({ recordId, refusal }) => [recordId, refusal]));
  return recordIds.flatMap((recordId): readonly ErasureRefusal[] => {
    if (!refusals.has(recordId)) return [{ recordId, why: "unknown" }];
    const refusal = refusals.get(recordId);
    return refusal === undefined ? [] : [{ recordId, ...refusal }];
  });
}

export async function previewErasure(
  queries: Queries,
  tenantId: TenantId,
  recordIds: readonly RecordId[],
): Promise<ErasurePreview> {
  const found = await findErasable(queries, tenantId, recordIds);
  const refused = refusalsOf(recordIds, found);
  if (refused.length > 0) return { refused };
  return {
    erasable: found.flatMap(({ earlier, refusal: _, ...record }) => (earlier?.wasErased ? [] : [record])),
    erased: found.flatMap(({ earlier }) => (earlier?.wasErased ? [earlier] : [])),
  };
}

/** Appends to the log whose head is locked, in the same transaction; at most once. */
export type AppendOwn = (records: readonly AppendableRecord[]) => Promise<BatchResult>;

/**
 * Erases those of the records that were not: removes the erasable parts of each, appends a leaf, and notes it. What a
 * backup brought back is removed again, and keeps its leaf. The caller checks refusals. Resolves with all of them, in
 * the same order.
 */
export async function eraseRecords(
  transaction: Transaction,
  tenantId: TenantId,
  found: readonly FoundRecord[],
  { reason, operator, clock, random }: ErasureOptions,
  append: AppendOwn,
): Promise<readonly ErasedRecord[]> {
  const remaining = found.filter(({ earlier }) => earlier?.wasErased !== true);
  const answers = await removeRemains(transaction, tenantId, remaining);
  const fresh = remaining.filter(({ earlier }) => earlier === undefined);
  if (fresh.length === 0) return found.flatMap(({ earlier }) => earlier ?? []);
  const erasures = fresh.map(({ recordId, leafIndex, kind }) => {
    const idempotencyRecords = answers.filter((row) => row.leaf_index === leafIndex).length;
    const target = { recordId, leafIndex, kind, idempotencyRecords };
    return erasureRecord(tenantId, target, { reason, operator, clock, random });
  });
  const { results } = await append(erasures);
  const erased = new Map(
    fresh.map(({ recordId, leafIndex }, position) => {
      const erasure = results[position];
      if (typeof erasure !== "object") throw new Error("The erasure has no place in the log.");
      const { leafIndex: erasureLeafIndex, recordedAt: erasedAt } = erasure;
      return [recordId, { recordId, leafIndex, erasureLeafIndex, erasedAt, wasErased: false }];
    }),
  );
  const rows = [...erased.values()].map((one) => [tenantId, one.recordId, one.leafIndex, one.erasureLeafIndex]);
  await transaction.insert(tables.erasures, rows);
  return found.flatMap(({ recordId, earlier }) => earlier ?? erased.get(recordId) ?? []);
}

/**
 * Removes the erasable parts of records. Leaves and sealed bytes stay: leaves identify no person, and sealed bytes
 * cannot be opened any more. Resolves with a row for each answer that was kept with them.
 */
async function removeRemains(
  queries: Queries,
  tenantId: TenantId,
  records: readonly Pick<FoundRecord, "recordId" | "leafIndex">[],
): Promise<readonly Row[]> {
  const leaves = records.map(({ leafIndex }) => leafIndex);
  const recordIds = records.map(({ recordId }) => recordId);
  const [answers] = await Promise.all([
    queries.query(eraseAnswers, [tenantId, leaves]),
    queries.query(deleteOpenings, [tenantId, recordIds]),
    removeFromSegments(queries, tenantId, leaves),
    queries.query(keepRegistrations, [tenantId, leaves]),
  ]);
  return answers.rows;
}

/** Stands for every record of the tenant; no record has this id. */
const wholeTenant = "";

const holdColumns = "tenant_id, record_id, reason, placed_at_ms";
const covering = `SELECT ${holdColumns} FROM legal_holds WHERE tenant_id = $1 AND record_id = ANY ($2::text[])`;
const release = `DELETE FROM legal_holds WHERE tenant_id = $1 AND record_id = $2 RETURNING ${holdColumns}`;
const all = `SELECT ${holdColumns} FROM legal_holds WHERE $1::text IS NULL OR tenant_id = $1
   ORDER BY tenant_id, record_id`;

type HoldOn = (recordId: RecordId) => LegalHold | undefined;

/** Returns, for each held record, a hold that covers it: on the tenant, or on the record itself. */
async function holdsCovering(queries: Queries, tenantId: TenantId, recordIds: readonly RecordId[]): Promise<HoldOn> {
  const { rows } = await queries.query(covering, [tenantId, [wholeTenant, ...recordIds]]);
  const holds = rows.map(holdOf);
  const onTenant = holds.find(({ recordId }) => recordId === undefined);
  return (recordId) => onTenant ?? holds.find((hold) => hold.recordId === recordId);
}

export async function findHold(
  queries: Queries,
  tenantId: TenantId,
  recordId: RecordId | undefined,
): Promise<LegalHold | undefined> {
  const [row] = (await queries.query(covering, [tenantId, [recordId ?? wholeTenant]])).rows;
  return row && holdOf(row);
}

export function insertHold(transaction: Transaction, hold: LegalHold): Promise<void> {
  const { tenantId, recordId, reason, placedAtMs } = hold;
  return transaction.insert(tables.legalHolds, [[tenantId, recordId ?? wholeTenant, reason, placedAtMs]]);
}

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

const tenantsWithErased = `SELECT DISTINCT tenant_id FROM erasures WHERE ${isBackSql("erasures.tenant_id")} ORDER BY tenant_id`;

/**
 * Returns erased data that is in the store again, by tenant.
 * @param noted erasures that the store's own anchor notes; the result includes those that the store lacks
 */
export async function findUndone(
  queries: Queries,
  noted: readonly NotedErasure[] = [],
): Promise<readonly UndoneErasure[]> {
  const found: UndoneErasure[] = [];
  for (const { tenant_id } of (await queries.query(tenantsWithErased, [])).rows)
    for (let after: number | undefined = -1; after !== undefined; ) {
      const part = await erasuresAfter(queries, tenant_id as TenantId, { isBack: true, after });
      found.push(...part.erasures);
      after = part.after;
    }
  for (const [tenantId, own] of Map.groupBy(noted, (note) => note.tenantId))
    for (let at = 0; at < own.length; at += maxErasedAtOnce)
      found.push(...(await unrecordedOf(queries, tenantId, own.slice(at, at + maxErasedAtOnce))));
  return found;
}

/** Returns the erasures of a tenant that its anchor notes and the store lacks. */
async function unrecordedOf(
  queries: Queries,
  tenantId: TenantId,
  noted: readonly NotedErasure[],
): Promise<readonly UndoneErasure[]> {
  const recordIds = noted.map(({ recordId }) => recordId);
  return (await findErasable(queries, tenantId, recordIds))
    .filter(({ earlier }) => earlier === undefined)
    .map(({ recordId, leafIndex, refusal }) => ({
      ...{ tenantId, recordId, leafIndex, refusal },
      erasureLeafIndex: undefined,
    }));
}

/** Selects erasures after a leaf index, -1 at first: those whose opening or answer was restored, or all others. */
interface ErasuresAfter {
  readonly isBack: boolean;
  readonly after: number;
}

/**
 * Removes again, in the caller's transaction, all remains of the next erased records of the tenant. If one part came
 * back, entries of its indexes may have too. Returns the erasures that were carried out, and the next `after`; undefined
 * after the last.
 */
export async function removeUndone(
  queries: Queries,
  tenantId: TenantId,
  which: ErasuresAfter,
): Promise<{ readonly removed: readonly UndoneErasure[]; readonly after: number | undefined }> {
  const { erasures, after } = await erasuresAfter(queries, tenantId, which);
  const removed = erasures.filter(({ refusal }) => refusal === undefined);
  await removeRemains(queries, tenantId, removed);
  return { removed, after };
}

/** Returns some erasures of the tenant in the order of their records, and the next `after`; undefined after the last. */
async function erasuresAfter(queries: Queries, tenantId: TenantId, { isBack, after }: ErasuresAfter) {
  const { rows } = await queries.query(findErasures, [tenantId, after, isBack]);
  const recordIds = rows.map(({ erased_record_id }) => erased_record_id as RecordId);
  const holdOn = await holdsCovering(queries, tenantId, recordIds);
  const erasures = rows.map((row): UndoneErasure => {
    const members = { recordId: row.erased_record_id as RecordId, leafIndex: row.erased_leaf_index as number };
    const erasureLeafIndex = row.erasure_leaf_index as number;
    return { tenantId, ...members, erasureLeafIndex, refusal: refusalOfErased(row, holdOn) };
  });
  return { erasures, after: rows.length < maxErasedAtOnce ? undefined : erasures.at(-1)?.leafIndex };
}

/** Returns why restored parts of an erased record are not removed. */
function refusalOfErased(row: Row, holdOn: HoldOn): ReapplyRefusal | undefined {
  const { record_id, leaf_index } = row;
  if (record_id !== row.erased_record_id || leaf_index !== row.erased_leaf_index || !saysErased(row))
    return { why: "unproven" };
  const { kind } = readLeaf(`The leaf ${leaf_index}`, row.leaf as Uint8Array);
  return refusalOf(kind, record_id as RecordId, holdOn);
}

/** Whether the erasure's leaf exists, opens, and names this record and its leaf. */
function saysErased(row: Row): boolean {
  const parts = [row.erasure_leaf, row.erasure_sealed, row.erasure_opening] as [Uint8Array, Uint8Array, Uint8Array];
  try {
    const said = readErasure(openStoredRecord(`The leaf ${row.erasure_leaf_index}`, ...parts));
    return said?.recordId === row.record_id && said?.leafIndex === row.leaf_index;
  } catch (error) {
    if (error instanceof DamagedError) return false;
    throw error;
  }
}
