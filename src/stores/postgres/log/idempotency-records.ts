/** Idempotency records in PostgreSQL (table `kept_answers`). */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import type { SealedEntry } from "../../../ledger/append/sequence.ts";
import type { CommittedRecord, NotAppended } from "../../../ledger/ports/store.ts";
import {
  type IdempotencyRow,
  idempotencyTtlMs,
  idempotentResult,
  purgedPerInsert,
  sealIdempotencyRecord,
} from "../../../ledger/record/idempotency-record.ts";
import type { EncodedIdempotency, EncodedRecord } from "../../../ledger/record/record.ts";
import { bigintArray, byteaArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";
import { readTree } from "./log-rows.ts";

const find: Statement = {
  name: "find_kept",
  text: `SELECT kept_answers.scope, entries.leaf_index, tree_size, kept_answers.sealed AS answer, record_id, leaf,
                entries.sealed AS record, CASE WHEN erasure_leaf_index IS NULL THEN opening END AS opening
           FROM kept_answers
           JOIN entries USING (tenant_id, leaf_index)
           LEFT JOIN openings USING (tenant_id, record_id)
           LEFT JOIN erasures USING (tenant_id, record_id)
          WHERE tenant_id = $1 AND kept_answers.scope = ANY ($2::bytea[])`,
};
const keep: Statement = {
  name: "keep_answers",
  text: `INSERT INTO kept_answers (tenant_id, scope, leaf_index, tree_size, kept_at_ms, sealed)
         SELECT head.tenant_id, kept.scope, kept.leaf_index, $2, $3, kept.sealed
           FROM log_heads head, unnest($4::bytea[], $5::bigint[], $6::bytea[]) AS kept (scope, leaf_index, sealed)
          WHERE head.tenant_id = $1`,
};
const purge: Statement = {
  name: "purge_kept",
  text: `DELETE FROM kept_answers WHERE tenant_id = $1 AND scope IN
           (SELECT scope FROM kept_answers WHERE tenant_id = $1 AND kept_at_ms < $2 ORDER BY kept_at_ms LIMIT $3)`,
};

/** What is known of the scopes of a batch. */
export type KnownScopes = (idempotency: EncodedIdempotency) => CommittedRecord | NotAppended | undefined;

/**
 * Looks up every scope of a batch. Under the lock of the log's head, so that no other batch takes one meanwhile.
 * Rejects with `UnsoundLogError` where what is stored does not verify.
 */
export async function findIdempotencyRecords(
  queries: Queries,
  tenantId: TenantId,
  records: readonly EncodedRecord[],
): Promise<KnownScopes> {
  const scopes = new Map<string, EncodedIdempotency>();
  for (const { idempotency } of records) if (idempotency !== undefined) scopes.set(idempotency.scope, idempotency);
  if (scopes.size === 0) return () => undefined;
  const asked = byteaArray([...scopes.keys()].map((scope) => Buffer.from(scope, "hex")));
  const { rows } = await queries.query(find, [tenantId, asked]);
  const known = new Map<string, KnownScopes>();
  for (const row of rows) {
    const stored = toIdempotencyRow(row);
    const tree = await readTree(queries, tenantId, stored.treeSize, [stored.leafIndex]);
    known.set((row.scope as Buffer).toString("hex"), (idempotency) =>
      idempotentResult(stored, idempotency, () => tree),
    );
  }
  return (idempotency) => known.get(idempotency.scope)?.(idempotency);
}

/** The answer to a call, as it is kept. */
export interface KeptCall {
  readonly scope: Uint8Array;
  readonly leafIndex: number;
  readonly sealed: Uint8Array;
}

export function keptCall(idempotency: EncodedIdempotency, { leafIndex, opening }: SealedEntry): KeptCall {
  return {
    scope: Buffer.from(idempotency.scope, "hex"),
    leafIndex,
    sealed: sealIdempotencyRecord(idempotency, opening),
  };
}

/** What was kept before that may go. Milliseconds since the Unix epoch. */
export function oldestKeptMs(nowMs: number): number {
  return nowMs - idempotencyTtlMs;
}

/** Keeps the answers to the calls of a batch, and lets some go that are old enough. Under the lock of the head. */
export async function keepAnswers(
  queries: Queries,
  tenantId: TenantId,
  calls: readonly KeptCall[],
  treeSize: number,
  nowMs: number,
): Promise<void> {
  if (calls.length === 0) return;
  const scopes = byteaArray(calls.map(({ scope }) => scope));
  const indices = bigintArray(calls.map(({ leafIndex }) => leafIndex));
  const sealed = byteaArray(calls.map((call) => call.sealed));
  await Promise.all([
    queries.query(purge, [tenantId, oldestKeptMs(nowMs), purgedPerInsert * calls.length]),
    queries.query(keep, [tenantId, treeSize, nowMs, scopes, indices, sealed]),
  ]);
}

/** A row of `kept_answers` with that of its record. */
export function toIdempotencyRow(row: Row): IdempotencyRow {
  return {
    leafIndex: row.leaf_index as number,
    treeSize: row.tree_size as number,
    answer: row.answer as Uint8Array | null,
    opening: row.opening as Uint8Array | null,
    recordId: row.record_id as RecordId,
    leaf: row.leaf as Uint8Array,
    record: row.record as Uint8Array,
  };
}
