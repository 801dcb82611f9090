/** Carries out erasures again, in transactions of its own. */
import type { TenantId } from "../../../base/ids.ts";
import type { ErasureStatement } from "../../../ledger/ports/record.ts";
import {
  maxErasedAtOnce,
  type ReapplyResult,
  type UndoneErasure,
} from "../../../ledger/ports/records-administration.ts";
import { inTransaction, type SqliteConnection } from "../connection.ts";
import type { ErasureNote, SqliteAnchor } from "../log/anchor.ts";
import { type ErasedBatch, type Eraser, RecordRemains } from "./eraser.ts";
import { UndoneErasures } from "./undone-erasures.ts";

export interface ReapplyOptions {
  readonly connection: SqliteConnection;
  /** The store's own. */
  readonly anchor: SqliteAnchor;
  readonly eraser: Eraser;
  /** Anchors what was committed. */
  readonly settle: (tenantId: TenantId, batch: ErasedBatch) => void;
}

type Reapplied = ReapplyResult["reapplied"];

/** Holds and kinds are looked at again within each transaction. Throws like an erasure. */
export function reapplyErasures(
  options: ReapplyOptions,
  tenantId: TenantId | undefined,
  statement: ErasureStatement,
): Omit<ReapplyResult, "overwritten"> {
  const { connection, anchor } = options;
  const undone = new UndoneErasures(connection);
  const find = () =>
    undone.all([...anchor.erasures()]).filter((one) => tenantId === undefined || one.tenantId === tenantId);
  const wanted = find().filter(({ refusal }) => refusal === undefined);
  const recorded = wanted.filter(({ erasureLeafIndex }) => erasureLeafIndex !== undefined);
  const noted = wanted.filter(({ erasureLeafIndex }) => erasureLeafIndex === undefined);
  const removed = [...Map.groupBy(recorded, (one) => one.tenantId)].flatMap(([of, came]) =>
    removeAgain(connection, undone, of, came),
  );
  const erased = [...Map.groupBy(noted, (one) => one.tenantId)].flatMap(([of, notes]) =>
    eraseNoted(options, undone, of, notes, statement),
  );
  return { reapplied: [...removed, ...erased], left: find() };
}

/** What has its leaf, and with it all that other erased records of the tenant may be found by again. */
function removeAgain(
  connection: SqliteConnection,
  undone: UndoneErasures,
  tenantId: TenantId,
  came: readonly UndoneErasure[],
): Reapplied {
  const remains = new RecordRemains(connection);
  const removed = inTransaction(connection, () => {
    const erasures = undone.ofTenant(tenantId);
    for (const { recordId, leafIndex } of erasures) remains.remove(tenantId, recordId, leafIndex);
    return new Set(erasures.map(({ recordId }) => recordId));
  });
  return came.flatMap((one) =>
    one.erasureLeafIndex !== undefined && removed.has(one.recordId)
      ? [{ ...one, erasureLeafIndex: one.erasureLeafIndex }]
      : [],
  );
}

function eraseNoted(
  { connection, eraser, settle }: ReapplyOptions,
  undone: UndoneErasures,
  tenantId: TenantId,
  notes: readonly ErasureNote[],
  statement: ErasureStatement,
): Reapplied {
  const done: Reapplied[number][] = [];
  for (let at = 0; at < notes.length; at += maxErasedAtOnce) {
    const part = notes.slice(at, at + maxErasedAtOnce);
    const batch = inTransaction(connection, () => {
      const recordIds = undone.ofNotes(part).flatMap((one) => (one.refusal === undefined ? [one.recordId] : []));
      return eraser.erase(tenantId, recordIds, statement);
    });
    settle(tenantId, batch);
    for (const { recordId, leafIndex, erasureLeafIndex } of batch.erased)
      done.push({ tenantId, recordId, leafIndex, erasureLeafIndex, refusal: undefined });
  }
  return done;
}
