/** Looks up records for erasure: kind, holds, and whether they are erased already. */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import type { RecordKind } from "../../../ledger/ports/record.ts";
import type { ErasedRecord, ErasurePreview, ErasureRefusal } from "../../../ledger/ports/records-administration.ts";
import { unerasable } from "../../../ledger/record/operator-records.ts";
import { readLeaf } from "../../stored-record.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import { LegalHolds } from "./legal-holds.ts";

/** A record that may be erased, or was. */
export interface FoundRecord {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly kind: RecordKind;
  readonly earlier: ErasedRecord | undefined;
}

export class ErasableRecords {
  readonly #holds: LegalHolds;
  readonly #find: SqliteStatement;
  readonly #leaf: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#holds = new LegalHolds(connection);
    this.#find = connection.prepare(
      `SELECT entries.leaf_index, leaf, erasure_leaf_index
         FROM entries LEFT JOIN erasures USING (tenant_id, record_id)
        WHERE tenant_id = ? AND record_id = ?`,
    );
    this.#leaf = connection.prepare("SELECT leaf FROM entries WHERE tenant_id = ? AND leaf_index = ?");
  }

  /** Why records must not be erased; empty where all may be, or were. */
  refusals(tenantId: TenantId, recordIds: readonly RecordId[]): readonly ErasureRefusal[] {
    return recordIds.flatMap((recordId): readonly ErasureRefusal[] => {
      const found = this.find(tenantId, recordId);
      if (found === undefined) return [{ recordId, why: "unknown" }];
      if (found.earlier !== undefined) return [];
      if (unerasable[found.kind] !== undefined) return [{ recordId, why: "kind", kind: found.kind }];
      const hold = this.#holds.covering(tenantId, recordId);
      return hold === undefined ? [] : [{ recordId, why: "held", hold }];
    });
  }

  preview(tenantId: TenantId, recordIds: readonly RecordId[]): ErasurePreview {
    const refused = this.refusals(tenantId, recordIds);
    if (refused.length > 0) return { refused };
    const found = recordIds.flatMap((recordId) => this.find(tenantId, recordId) ?? []);
    return {
      erasable: found.flatMap(({ earlier, ...record }) => (earlier === undefined ? [record] : [])),
      erased: found.flatMap(({ earlier }) => earlier ?? []),
    };
  }

  find(tenantId: TenantId, recordId: RecordId): FoundRecord | undefined {
    const row = this.#find.get(tenantId, recordId);
    if (row === undefined) return undefined;
    const leafIndex = row.leaf_index as number;
    const { kind } = readLeaf(`The leaf ${leafIndex}`, row.leaf as Uint8Array);
    const erasureLeafIndex = row.erasure_leaf_index as number | null;
    const earlier =
      erasureLeafIndex === null
        ? undefined
        : {
            recordId,
            leafIndex,
            erasureLeafIndex,
            erasedAt: this.#timeOf(tenantId, erasureLeafIndex),
            wasErased: true,
          };
    return { recordId, leafIndex, kind, earlier };
  }

  #timeOf(tenantId: TenantId, leafIndex: number): string {
    return readLeaf(`The leaf ${leafIndex}`, this.#leaf.get(tenantId, leafIndex)?.leaf as Uint8Array).recorded_at;
  }
}
