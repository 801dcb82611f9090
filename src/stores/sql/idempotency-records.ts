/** Idempotency records (table `kept_answers`). */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { SealedEntry } from "../../ledger/append/sequence.ts";
import type { IdempotencyRow } from "../../ledger/ports/archive.ts";
import type {
  CommittedRecord,
  EncodedIdempotency,
  EncodedRecord,
  LogState,
  NotAppended,
} from "../../ledger/ports/store.ts";
import {
  idempotencyTtlMs,
  idempotentResult,
  purgedPerInsert,
  sealIdempotencyRecord,
} from "../../ledger/record/idempotency-record.ts";
import { nodesOfTiles, proofTiles } from "../../ledger/tlog/tile-nodes.ts";
import { Tree } from "../../ledger/tlog/tree.ts";
import { readTiles } from "./log-rows.ts";
import type { Queries, Row, Statement, Transaction } from "./queries.ts";
import { tables } from "./tables.ts";

const find: Statement = {
  name: "find_kept",
  text: `SELECT kept_answers.scope, entries.leaf_index, tree_size, kept_answers.sealed AS answer, record_id, leaf,
                entries.sealed AS record, opening, erasure_leaf_index
           FROM kept_answers
           JOIN entries USING (tenant_id, leaf_index)
           LEFT JOIN openings USING (tenant_id, record_id)
           LEFT JOIN erasures USING (tenant_id, record_id)
          WHERE tenant_id = $1 AND kept_answers.scope = ANY ($2::bytea[])`,
};
const purge: Statement = {
  name: "purge_kept",
  text: `DELETE FROM kept_answers WHERE tenant_id = $1 AND scope IN
           (SELECT scope FROM kept_answers WHERE tenant_id = $1 AND kept_at_ms < $2 ORDER BY kept_at_ms LIMIT $3)`,
};

/** Looks up the known result of a scope. */
export type KnownScopes = (idempotency: EncodedIdempotency) => CommittedRecord | NotAppended | undefined;

/**
 * Looks up every scope of a batch, under the lock of the log's head, so that no other batch takes one meanwhile.
 * Rejects with `UnsoundLogError` if stored data does not verify.
 * @param locked the log's head; awaited only if a scope is known
 * @param isNoted whether the store's anchor notes the erasure of a record, which also counts after a backup restores
 *   the record
 */
export async function findIdempotencyRecords(
  queries: Queries,
  tenantId: TenantId,
  records: readonly EncodedRecord[],
  locked: Promise<LogState | undefined>,
  isNoted: (recordId: RecordId) => boolean = () => false,
): Promise<KnownScopes> {
  const scopes = new Map<string, EncodedIdempotency>();
  for (const { idempotency } of records) if (idempotency !== undefined) scopes.set(idempotency.scope, idempotency);
  if (scopes.size === 0) return () => undefined;
  const asked = [...scopes.keys()].map((scope) => Buffer.from(scope, "hex"));
  const { rows } = await queries.query(find, [tenantId, asked]);
  if (rows.length === 0) return () => undefined;
  const head = await locked;
  if (head === undefined) return () => undefined;
  const known = new Map<string, KnownScopes>();
  for (const row of rows) {
    const kept = toIdempotencyRow(row);
    const isErased = row.erasure_leaf_index !== null || isNoted(kept.recordId);
    const stored = isErased ? { ...kept, opening: null } : kept;
    const nodes = nodesOfTiles(await readTiles(queries, tenantId, tilesOfKept(stored, head.size)));
    known.set(Buffer.from(row.scope as Uint8Array).toString("hex"), (idempotency) =>
      idempotentResult(stored, idempotency, head, (size) => new Tree(size, nodes)),
    );
  }
  return (idempotency) => known.get(idempotency.scope)?.(idempotency);
}

/** Lists the tiles that prove a kept call's record in its tree, and that tree in the log's newest. */
export function tilesOfKept({ treeSize, leafIndex }: Pick<IdempotencyRow, "treeSize" | "leafIndex">, size: number) {
  return [...proofTiles(treeSize, [leafIndex]), ...proofTiles(size, [treeSize - 1])];
}

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

/** Returns the time before which kept answers may be removed. Milliseconds since the Unix epoch. */
export function oldestKeptMs(nowMs: number): number {
  return nowMs - idempotencyTtlMs;
}

/** Keeps the answers to the calls of a batch, and removes some expired ones. Under the lock of the head. */
export async function keepAnswers(
  transaction: Transaction,
  tenantId: TenantId,
  calls: readonly KeptCall[],
  treeSize: number,
  nowMs: number,
): Promise<void> {
  if (calls.length === 0) return;
  await Promise.all([
    transaction.query(purge, [tenantId, oldestKeptMs(nowMs), purgedPerInsert * calls.length]),
    transaction.insert(
      tables.keptAnswers,
      calls.map(({ scope, leafIndex, sealed }) => [tenantId, scope, leafIndex, treeSize, nowMs, sealed]),
    ),
  ]);
}

/** Converts a row of `kept_answers`, joined with its record. */
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
