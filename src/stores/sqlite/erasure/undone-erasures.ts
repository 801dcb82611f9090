/** Finds erasures that a restored backup has undone. Reads the store itself, including rows hidden from readers. */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import { refusalOfKind } from "../../../ledger/audit/undone-erasures.ts";
import type { ReapplyRefusal, UndoneErasure } from "../../../ledger/ports/records-administration.ts";
import { readErasure } from "../../../ledger/record/operator-records.ts";
import { DamagedError } from "../../errors.ts";
import { openStoredRecord, readLeaf } from "../../stored-record.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import type { ErasureNote } from "../log/anchor.ts";
import { LegalHolds } from "./legal-holds.ts";

/** An erasure that the store has. */
interface RecordedErasure extends ErasureNote {
  readonly leafIndex: number;
  readonly erasureLeafIndex: number;
}

export class UndoneErasures {
  readonly #holds: LegalHolds;
  readonly #recorded: SqliteStatement;
  readonly #ofTenant: SqliteStatement;
  readonly #unrecorded: SqliteStatement;
  readonly #entry: SqliteStatement;

  /** The store must have this program's schema. */
  constructor(connection: SqliteConnection) {
    this.#holds = new LegalHolds(connection);
    this.#recorded = connection.prepare(
      `SELECT * FROM erasures AS erased
        WHERE EXISTS (SELECT 1 FROM main.openings WHERE tenant_id = erased.tenant_id AND record_id = erased.record_id)
           OR EXISTS (SELECT 1 FROM kept_answers
                       WHERE tenant_id = erased.tenant_id AND leaf_index = erased.leaf_index AND sealed IS NOT NULL)
        ORDER BY tenant_id, leaf_index`,
    );
    this.#ofTenant = connection.prepare("SELECT * FROM erasures WHERE tenant_id = ? ORDER BY leaf_index");
    this.#unrecorded = connection.prepare(
      `SELECT entries.leaf_index, leaf
         FROM entries LEFT JOIN erasures USING (tenant_id, record_id)
        WHERE tenant_id = ? AND record_id = ? AND erasure_leaf_index IS NULL`,
    );
    this.#entry = connection.prepare(
      `SELECT record_id, leaf, sealed, opening
         FROM entries LEFT JOIN main.openings USING (tenant_id, record_id)
        WHERE tenant_id = ? AND leaf_index = ?`,
    );
  }

  /**
   * What came back, by tenant.
   * @param noted erasures that the store's own anchor notes
   */
  all(noted: readonly ErasureNote[]): readonly UndoneErasure[] {
    const recorded = [...this.#recorded.iterate()].map(recordedOf).map((erasure) => this.#withRefusal(erasure));
    return [...recorded, ...this.ofNotes(noted)];
  }

  /** Of these erasures, those that the store does not have. */
  ofNotes(noted: readonly ErasureNote[]): readonly UndoneErasure[] {
    return noted.flatMap((note) => this.#notedOf(note));
  }

  /**
   * All erasures of a tenant that the store has and that may be carried out again. Where anything of a tenant came back,
   * what its erased records are found by may have too, though they cannot be opened.
   */
  ofTenant(tenantId: TenantId): readonly UndoneErasure[] {
    return [...this.#ofTenant.iterate(tenantId)]
      .map(recordedOf)
      .map((erasure) => this.#withRefusal(erasure))
      .filter(({ refusal }) => refusal === undefined);
  }

  #withRefusal(erasure: RecordedErasure): UndoneErasure {
    const { tenantId, recordId, leafIndex, erasureLeafIndex } = erasure;
    const row = this.#entry.get(tenantId, leafIndex);
    const isProven = row?.record_id === recordId && this.#saysLeaf(tenantId, erasureLeafIndex, recordId, leafIndex);
    const refusal = isProven ? this.#refusal(tenantId, recordId, leafIndex, row.leaf) : ({ why: "unproven" } as const);
    return { tenantId, recordId, leafIndex, erasureLeafIndex, refusal };
  }

  #notedOf({ tenantId, recordId }: ErasureNote): readonly UndoneErasure[] {
    const row = this.#unrecorded.get(tenantId, recordId);
    if (row === undefined) return [];
    const leafIndex = row.leaf_index as number;
    const refusal = this.#refusal(tenantId, recordId, leafIndex, row.leaf);
    return [{ tenantId, recordId, leafIndex, erasureLeafIndex: undefined, refusal }];
  }

  #refusal(tenantId: TenantId, recordId: RecordId, leafIndex: number, leaf: unknown): ReapplyRefusal | undefined {
    const { kind } = readLeaf(`The leaf ${leafIndex}`, leaf as Uint8Array);
    const hold = this.#holds.covering(tenantId, recordId);
    return refusalOfKind(kind) ?? (hold && { why: "held", hold });
  }

  /** Whether the leaf is of a record that erased this one. */
  #saysLeaf(tenantId: TenantId, erasureLeafIndex: number, recordId: RecordId, leafIndex: number): boolean {
    const row = this.#entry.get(tenantId, erasureLeafIndex);
    if (row === undefined || row.opening === null) return false;
    const [leaf, sealed, opening] = [row.leaf, row.sealed, row.opening] as [Uint8Array, Uint8Array, Uint8Array];
    try {
      const said = readErasure(openStoredRecord(`The leaf ${erasureLeafIndex}`, leaf, sealed, opening));
      return said?.recordId === recordId && said.leafIndex === leafIndex;
    } catch (error) {
      if (error instanceof DamagedError) return false;
      throw error;
    }
  }
}

function recordedOf(row: Record<string, unknown>): RecordedErasure {
  return {
    tenantId: row.tenant_id as TenantId,
    recordId: row.record_id as RecordId,
    leafIndex: row.leaf_index as number,
    erasureLeafIndex: row.erasure_leaf_index as number,
  };
}
