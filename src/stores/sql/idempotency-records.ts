/** Idempotency records (table `kept_answers`). */
import { clockDifferenceMs } from "../../base/clock.ts";
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { SealedEntry } from "../../ledger/append/sequence.ts";
import type { IdempotencyRow } from "../../ledger/ports/archive.ts";
import type { Idempotency } from "../../ledger/ports/record.ts";
import type { CommittedRecord, EncodedRecord, LogState, NotAppended, TenantBatch } from "../../ledger/ports/store.ts";
import {
  idempotencyTtlMs,
  idempotentResult,
  purgedPerInsert,
  sealIdempotencyRecord,
} from "../../ledger/record/idempotency-record.ts";
import { nodesOfTiles, proofTiles, type TileReader } from "../../ledger/tlog/tile-nodes.ts";
import { Tree } from "../../ledger/tlog/tree.ts";
import { onRows, type Queries, queryRows, type TenantStatement, type Transaction } from "./queries.ts";
import { tables } from "./schema.ts";

const find = onRows(
  { scope: "bytea" },
  (asked, tenant) => `
    SELECT kept.tenant_id AS "tenantId", kept.scope, entries.leaf_index AS "leafIndex", tree_size AS "treeSize",
           kept.sealed AS answer, entries.record_id AS "recordId", leaf, entries.sealed AS record, opening,
           erasure_leaf_index IS NOT NULL AS "isErased"
      FROM ${asked}
      JOIN kept_answers kept ON kept.tenant_id = ${tenant} AND kept.scope = asked.scope
      JOIN entries ON entries.tenant_id = ${tenant} AND entries.leaf_index = kept.leaf_index
      LEFT JOIN openings ON openings.tenant_id = entries.tenant_id AND openings.record_id = entries.record_id
      LEFT JOIN erasures ON erasures.tenant_id = entries.tenant_id AND erasures.record_id = entries.record_id`,
);
const purge: TenantStatement = {
  ofOne: `DELETE FROM kept_answers WHERE tenant_id = $1 AND scope IN
      (SELECT scope FROM kept_answers WHERE tenant_id = $1 AND kept_at_ms < $2 ORDER BY kept_at_ms LIMIT $3)`,
  ofMany: `DELETE FROM kept_answers WHERE (tenant_id, scope) IN
      (SELECT own.tenant_id, old.scope
         FROM unnest($1::text[], $2::bigint[], $3::integer[]) AS own (tenant_id, before_ms, at_most)
        CROSS JOIN LATERAL
              (SELECT scope FROM kept_answers
                WHERE kept_answers.tenant_id = own.tenant_id AND kept_at_ms < own.before_ms
                ORDER BY kept_at_ms LIMIT own.at_most) old)`,
};

/** The answer that is kept under a scope. */
export interface KeptRow extends IdempotencyRow {
  readonly tenantId: TenantId;
  readonly scope: Uint8Array;
  /** A boolean of the database. */
  readonly isErased: unknown;
}

/** Reads what is kept under the scopes of batches, with the records, under the locks of the logs' heads. */
export async function findKept(
  queries: Queries,
  batches: readonly Pick<TenantBatch, "tenantId" | "records">[],
): Promise<readonly KeptRow[]> {
  const asked = batches.flatMap(({ tenantId, records }) =>
    records.flatMap(({ idempotency }) =>
      idempotency === undefined ? [] : [[tenantId, Buffer.from(idempotency.scope, "hex")] as const],
    ),
  );
  return asked.length === 0 ? [] : ((await queryRows(queries, find, asked)).rows as unknown as readonly KeptRow[]);
}

/**
 * Looks up scopes in the rows that are kept of a tenant. Throws `UnsoundLogError` if stored data does not verify.
 * @param readTile reads at least `tilesOfKept` of each row
 * @param isNoted whether the store's anchor notes the erasure of a record, which also counts after a backup restores
 *   the record
 */
export function knownScopes(
  rows: readonly KeptRow[],
  head: LogState | undefined,
  readTile: TileReader,
  isNoted: (recordId: RecordId) => boolean,
): (idempotency: Omit<Idempotency, "answer">) => CommittedRecord | NotAppended | undefined {
  const byScope = new Map(rows.map((row) => [Buffer.from(row.scope).toString("hex"), row]));
  const nodes = nodesOfTiles(readTile);
  return ({ scope, payloadDigest }) => {
    const kept = byScope.get(scope);
    if (kept === undefined || head === undefined) return undefined;
    const stored = kept.isErased || isNoted(kept.recordId) ? { ...kept, opening: null } : kept;
    return idempotentResult(stored, payloadDigest, head, (size) => new Tree(size, nodes));
  };
}

/** Lists the tiles that prove a kept call's record in its tree, and that tree in the log's newest. */
export function tilesOfKept({ treeSize, leafIndex }: KeptRow, size: number) {
  return [...proofTiles(treeSize, [leafIndex]), ...proofTiles(size, [treeSize - 1])];
}

/** Returns what is kept of records with an idempotency scope; `entries` ends with theirs. */
export function keptCalls(records: readonly EncodedRecord[], entries: readonly SealedEntry[]) {
  const own = entries.slice(-records.length);
  return records.flatMap(({ idempotency, answer }, at) => {
    const entry = own[at];
    if (idempotency === undefined || answer === undefined || entry === undefined) return [];
    const { leafIndex, opening } = entry;
    const scope = Buffer.from(idempotency.scope, "hex");
    return [{ scope, leafIndex, sealed: sealIdempotencyRecord(idempotency.payloadDigest, answer, opening) }];
  });
}

export type KeptCalls = ReturnType<typeof keptCalls>;

/** Keeps the answers to the calls of batches, and removes some expired ones. Under the locks of the heads. */
export async function keepAnswers(
  transaction: Transaction,
  batches: readonly { readonly head: LogState; readonly calls: KeptCalls }[],
  nowMs: number,
): Promise<void> {
  const calling = batches.filter(({ calls }) => calls.length > 0);
  if (calling.length === 0) return;
  const rows = calling.flatMap(({ head: { tenantId, size }, calls }) =>
    calls.map(({ scope, leafIndex, sealed }) => [tenantId, scope, leafIndex, size, nowMs, sealed]),
  );
  // The clock of another replica may be behind this one.
  const beforeMs = nowMs - clockDifferenceMs - idempotencyTtlMs;
  const expired = calling.map(({ head, calls }) => [head.tenantId, beforeMs, purgedPerInsert * calls.length] as const);
  await Promise.all([transaction.each(purge, expired), transaction.insert(tables.keptAnswers, rows)]);
}
