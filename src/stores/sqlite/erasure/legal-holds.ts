/** Legal holds as they are stored. */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import type { LegalHold } from "../../../ledger/ports/records-administration.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";

/** Stands for every record of the tenant; no record has this id. */
const wholeTenant = "";

export class LegalHolds {
  readonly #covering: SqliteStatement;
  readonly #exactly: SqliteStatement;
  readonly #insert: SqliteStatement;
  readonly #release: SqliteStatement;
  readonly #all: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#covering = connection.prepare(
      `SELECT * FROM legal_holds WHERE tenant_id = ? AND record_id IN ('${wholeTenant}', ?) ORDER BY record_id LIMIT 1`,
    );
    this.#exactly = connection.prepare("SELECT * FROM legal_holds WHERE tenant_id = ? AND record_id = ?");
    this.#insert = connection.prepare(
      "INSERT INTO legal_holds (tenant_id, record_id, reason, placed_at_ms) VALUES (?, ?, ?, ?)",
    );
    this.#release = connection.prepare("DELETE FROM legal_holds WHERE tenant_id = ? AND record_id = ?");
    this.#all = connection.prepare(
      "SELECT * FROM legal_holds WHERE ?1 IS NULL OR tenant_id = ?1 ORDER BY tenant_id, record_id",
    );
  }

  /** A hold that covers the record: on the tenant, or on the record itself. */
  covering(tenantId: TenantId, recordId: RecordId): LegalHold | undefined {
    return holdOf(this.#covering.get(tenantId, recordId));
  }

  /** The hold on exactly this. */
  find(tenantId: TenantId, recordId: RecordId | undefined): LegalHold | undefined {
    return holdOf(this.#exactly.get(tenantId, recordId ?? wholeTenant));
  }

  insert({ tenantId, recordId, reason, placedAtMs }: LegalHold): void {
    this.#insert.run(tenantId, recordId ?? wholeTenant, reason, placedAtMs);
  }

  release(tenantId: TenantId, recordId: RecordId | undefined): void {
    this.#release.run(tenantId, recordId ?? wholeTenant);
  }

  all(tenantId: TenantId | undefined): readonly LegalHold[] {
    return [...this.#all.iterate(tenantId ?? null)].flatMap((row) => holdOf(row) ?? []);
  }
}

function holdOf(row: Record<string, unknown> | undefined): LegalHold | undefined {
  if (row === undefined) return undefined;
  return {
    tenantId: row.tenant_id as TenantId,
    recordId: row.record_id === wholeTenant ? undefined : (row.record_id as RecordId),
    reason: row.reason as string,
    placedAtMs: row.placed_at_ms as number,
  };
}
