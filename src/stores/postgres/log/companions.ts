/** Rows beside a log's entries (idempotency records, search index), for the audit. */
import type { TenantId } from "../../../base/ids.ts";
import type { Companions, RegistrationRows, SearchRows } from "../../../ledger/ports/archive.ts";
import type { IdempotencyRow } from "../../../ledger/record/idempotency-record.ts";
import { rangeOfBlock } from "../../../ledger/search/search-index.ts";
import { DamagedError } from "../../errors.ts";
import { lastLeafSql, toAuditedRow, toRegistrationRowOfLeaf } from "../../found-registrations.ts";
import type { Queries, Statement } from "../connection/connection.ts";
import { indexOf } from "../search/search-index.ts";
import { emptiedSegments, rowsInSegments } from "../search/search-segments.ts";
import { toIdempotencyRow } from "./idempotency-records.ts";
import { headOfTenant, isTimeAccepted, type StoredHead } from "./log-rows.ts";
import { visibleOpening } from "./log-statements.ts";

const rowsAfter: Statement = {
  name: "kept_after",
  text: `SELECT kept_answers.scope, leaf_index, tree_size, kept_answers.sealed AS answer,
                record_id, leaf, entries.sealed AS record, opening
           FROM kept_answers
           LEFT JOIN entries USING (tenant_id, leaf_index)
           LEFT JOIN openings USING (tenant_id, record_id)
          WHERE tenant_id = $1 AND kept_answers.scope > $2 ORDER BY kept_answers.scope LIMIT $3`,
};
const artifactKey: Statement = {
  name: "artifact_key_of_log",
  text: "SELECT key FROM artifact_keys WHERE tenant_id = $1",
};
const registrationsWithin: Statement = {
  name: "registrations_within",
  text: `SELECT leaf_index, artifact, relied_on FROM registered_artifacts
          WHERE tenant_id = $1 AND leaf_index >= $2 AND leaf_index < $3`,
};
const lastRegistration: Statement = { name: "last_registration", text: lastLeafSql("$1", "$2") };
const registrationsOf: Statement = {
  name: "registrations_of",
  text: `SELECT registered.artifact, registered.relied_on, entries.leaf_index, record_id, leaf, sealed, ${visibleOpening}
           JOIN registered_artifacts registered
             ON registered.tenant_id = entries.tenant_id AND registered.leaf_index = entries.leaf_index
          WHERE entries.tenant_id = $1 AND registered.tenant_id = $1 AND registered.artifact = $2
          ORDER BY registered.leaf_index`,
};
/** Rows that are in memory at a time. */
const rowsEach = 256;

/** Rejects with `DamagedError` where there is no such log. */
export async function companionsOf(queries: Queries, tenantId: TenantId): Promise<Companions> {
  const head = await headOfTenant(queries, tenantId);
  if (head === undefined) throw new DamagedError(`the log of ${tenantId} has no head`);
  return {
    lastRecordedAtMs: head.lastRecordedAtMs,
    isTimeAccepted: await isTimeAccepted(queries, head),
    searchIndex: await searchRows(queries, head),
    registrations: await registrationRows(queries, head),
    idempotencyRows: () => idempotencyRows(queries, tenantId),
  };
}

async function searchRows(queries: Queries, { tenantId, size }: StoredHead): Promise<SearchRows | undefined> {
  const index = await indexOf(queries, tenantId);
  if (index === undefined) return undefined;
  const { generation, key, filledTo } = index;
  return {
    key,
    waiting: [{ first: filledTo, end: size }, ...(await emptiedSegments(queries, tenantId, generation))],
    terms: (block) => rowsInSegments(queries, tenantId, { ...rangeOfBlock(block), generation }),
  };
}

async function registrationRows(queries: Queries, { tenantId, registeredTo }: StoredHead): Promise<RegistrationRows> {
  const [row] = (await queries.query(artifactKey, [tenantId])).rows;
  return {
    key: row?.key as Uint8Array | undefined,
    indexedTo: registeredTo,
    within: async (first, end) =>
      (await queries.query(registrationsWithin, [tenantId, first, end])).rows.map(toRegistrationRowOfLeaf),
    lastOf: async (artifact) => {
      const [row] = (await queries.query(lastRegistration, [tenantId, artifact])).rows;
      return (row?.leaf_index as number | null | undefined) ?? undefined;
    },
    of: async (artifact) => (await queries.query(registrationsOf, [tenantId, artifact])).rows.map(toAuditedRow),
  };
}

async function* idempotencyRows(queries: Queries, tenantId: TenantId): AsyncGenerator<IdempotencyRow> {
  let after: Uint8Array = new Uint8Array(0);
  for (;;) {
    const { rows } = await queries.query(rowsAfter, [tenantId, after, rowsEach]);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield* rows.map(toIdempotencyRow);
    after = last.scope as Uint8Array;
  }
}
