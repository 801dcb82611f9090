/** Cosignatures of witnesses: for each log the newest of each. */
import type { TenantId } from "../../../base/ids.ts";
import type { StoredCosignature } from "../../../ledger/ports/store.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";

const columns = "tenant_id, witness, key_id, size, root, line";

export function readCosignatures(connection: SqliteConnection): readonly StoredCosignature[] {
  return [
    ...connection.prepare(`SELECT ${columns} FROM cosignatures ORDER BY tenant_id, witness, key_id`).iterate(),
  ].map((row) => ({
    tenantId: row.tenant_id as TenantId,
    witness: row.witness as string,
    keyId: row.key_id as string,
    size: row.size as number,
    root: row.root as Uint8Array,
    line: row.line as string,
  }));
}

export class Cosignatures {
  readonly #keep: SqliteStatement;

  constructor(connection: SqliteConnection) {
    // Another process on the file may have kept a newer one.
    this.#keep = connection.prepare(
      `INSERT INTO cosignatures (${columns}) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET size = excluded.size, root = excluded.root, line = excluded.line
        WHERE excluded.size >= size`,
    );
  }

  /** Inside a transaction that the caller holds. */
  keep(cosignatures: readonly StoredCosignature[]): void {
    for (const { tenantId, witness, keyId, size, root, line } of cosignatures)
      this.#keep.run(tenantId, witness, keyId, size, root, line);
  }
}
